"""Browsers that a product starts and stops when its HTTP API is asked to."""

from __future__ import annotations
