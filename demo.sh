#!/bin/sh
# The demo, on a machine on which nothing is prepared: `sh demo.sh [options of scheduler.py demo]`.
set -eu
CDPATH='' cd -- "$(dirname -- "$0")"
sh tools/set_up.sh runtime
exec .venv/bin/python scheduler.py demo "$@"
