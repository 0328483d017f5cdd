"""Running tasks on leased profiles, politely: pace, robots.txt, classification, results."""

from __future__ import annotations
