"""A small local shop, two workers and a kill -9: what poolsql does, to look at."""

from __future__ import annotations
