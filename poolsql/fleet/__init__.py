"""Connecting to a fleet and borrowing profiles from it."""

from __future__ import annotations
