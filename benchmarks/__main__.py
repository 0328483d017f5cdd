"""``python -m benchmarks [NAME …] [--json] [--rounds N] [--seconds S]``."""

from __future__ import annotations

import argparse
import json

from benchmarks import checkout, handover
from benchmarks.fleets import fresh_fleet
from benchmarks.rounds import ROUNDS

BENCHMARKS = {"checkout": checkout.run, "handover": handover.run}


def main() -> None:
    """Run the benchmarks that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds that count (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each contender in each round")
    asked = parser.parse_args()
    unknown = set(asked.names) - BENCHMARKS.keys()
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; known are {', '.join(BENCHMARKS)}")
    with fresh_fleet() as fleet:
        for name in asked.names or BENCHMARKS:
            for case in BENCHMARKS[name](fleet, rounds=asked.rounds, seconds=asked.seconds):
                print(json.dumps(case.as_json()) if asked.json else "\n".join(case.lines()), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
