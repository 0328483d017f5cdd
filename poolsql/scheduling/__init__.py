"""Jobs, their schedules and runs, and the daemon that works on them."""

from __future__ import annotations
