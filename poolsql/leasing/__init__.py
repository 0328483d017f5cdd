"""Leases on profiles: checkout, renewal, release, expiry; outcomes, cooldowns and retirement."""

from __future__ import annotations
