"""The SQL files that several statements are joined from, in their order."""

from __future__ import annotations

VISIT = ("visited", "visit_effects", "forgiven")
"""Writes the visits of ``visit_now`` and their effects on the host."""

END = (*VISIT, "close", "ended")
"""Ends the leases of ``closing`` after that: attempt, deletion, and what becomes of the profile."""
