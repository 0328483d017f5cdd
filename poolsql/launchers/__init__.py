"""What starts and stops browsers."""

from __future__ import annotations
