#!/bin/sh
# The unit tests with each Python that is supported and installed: `sh tools/test_pythons.sh [options of pytest]`.
# Each gets a virtual environment of its own with the pins, in the user's cache, which stays for the next time.
#
# PYTHONS=…   the versions (default: 3.11 3.12 3.13); one that is absent is said and left out
#
# Exit codes: 0 all passed that are installed, 1 some did not.
set -eu
CDPATH='' cd -- "$(dirname -- "$0")/.."

say() { printf '%s\n' "$*" >&2; }
trap 'exit 130' INT
trap 'exit 143' TERM

# Prints the path of a Python of that version.
find_python() {
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        "$candidate" -c 'import sys, venv, ensurepip
sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])' "$1" >/dev/null 2>&1 || continue
        printf '%s\n' "$candidate"
        return
    done
    return 1
}

# usage: set_up PYTHON VENV
set_up() {
    pins=$(cksum <requirements-dev.lock)
    [ -x "$2/bin/python" ] && [ "$(cat "$2/pins" 2>/dev/null)" = "$pins" ] && return
    say "installing the pins into $2"
    rm -rf "$2"
    mkdir -p "$2"
    "$1" -m venv "$2" &&
        "$2/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r requirements-dev.lock &&
        printf '%s\n' "$pins" >"$2/pins"
}

ran=
failed=
for version in ${PYTHONS:-3.11 3.12 3.13}; do
    if ! python=$(find_python "$version"); then
        say "python $version: not installed here, left out"
        continue
    fi
    ran="$ran $version"
    venv=${XDG_CACHE_HOME:-$HOME/.cache}/poolsql/python-$version
    say "python $version: $($python --version)"
    # The code is that of this folder, also for the programs that tests start.
    if ! set_up "$python" "$venv" ||
        ! PYTHONPATH=$PWD "$venv/bin/python" -m pytest --numprocesses "${JOBS:-2}" --quiet tests/unit "$@"; then
        failed="$failed $version"
    fi
done
[ -z "$failed" ] || {
    say "poolsql: the unit tests failed with:$failed"
    exit 1
}
say "the unit tests passed with:${ran:- none, since none is installed}"
