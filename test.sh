#!/bin/sh
# The tests, on a machine on which nothing is prepared: `sh test.sh [options of pytest]`. JOBS=… is how many run at
# a time (default 2). Tests that take long, marked `slow`, run only with SLOW=yes, or when -m asks for them.
set -eu
CDPATH='' cd -- "$(dirname -- "$0")"
sh tools/set_up.sh dev
[ -n "${SLOW-}" ] || set -- -m "not slow" "$@"
exec .venv/bin/python -m pytest --numprocesses "${JOBS:-2}" --dist loadgroup "$@"
