"""``python -m benchmarks [NAME …] [--json] [--rounds N] [--seconds S] [--cycles N]``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from benchmarks import checkout, crash, endurance, flat, handover, reap, renew
from benchmarks.fleets import fresh_fleet
from benchmarks.report import Case
from benchmarks.rounds import ROUNDS

BENCHMARKS: Mapping[str, Callable[..., Iterator[Case]]] = {
    "checkout": checkout.run,
    "handover": handover.run,
    "flat.sizes": flat.sizes,
    "flat.cooling": flat.cooling,
    "flat.tags": flat.tags,
    "flat.hosts": flat.hosts,
    "flat.cycles": endurance.cycles,
    "flat.snapshot": endurance.snapshot,
    "reap": reap.run,
    "renew.leases": renew.leases,
    "renew.idle": renew.idle,
    "crash.together": crash.together,
    "crash.apart": crash.apart,
}
"""A name's first part stands for all that begin with it."""


def named(name: str) -> list[str]:
    """The benchmarks that a name stands for."""
    return [known for known in BENCHMARKS if known == name or known.startswith(f"{name}.")]


def at_least_one(given: str) -> int:
    """A number of rounds, cycles or seconds."""
    try:
        number = int(given)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{given} is no whole number from 1 on")
    return number


def main() -> None:
    """Run the benchmarks that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--rounds", type=at_least_one, default=ROUNDS, help="rounds that count (default: %(default)s)")
    parser.add_argument("--seconds", type=at_least_one, default=3, help="for each contender in each round")
    parser.add_argument(
        "--cycles",
        type=at_least_one,
        default=endurance.CYCLES,
        help="after how many cycles flat.cycles looks again (default: %(default)s; 1000000 take a quarter of an hour)",
    )
    asked = parser.parse_args()
    unknown = [name for name in asked.names if not named(name)]
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; known are {', '.join(BENCHMARKS)}")
    for name in [found for given in asked.names for found in named(given)] or BENCHMARKS:
        run = BENCHMARKS[name]
        if run is endurance.cycles:
            run = partial(run, cycles=asked.cycles)
        # A server for each, so that none meets what another one has left.
        with fresh_fleet() as fleet:
            for case in run(fleet, rounds=asked.rounds, seconds=asked.seconds):
                print(json.dumps(case.as_json()) if asked.json else "\n".join(case.lines()), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
