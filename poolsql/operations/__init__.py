"""What operators see and change by hand: lists, audited changes, health."""

from __future__ import annotations
