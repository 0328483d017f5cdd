#!/bin/sh
# Sets up what `make demo` and `make test` need: .venv, the pins in it, Playwright's driver and a Chromium.
# Says each thing that it does; says nothing and needs no network when nothing is left to do.
#
# usage: sh tools/set_up.sh runtime|dev|tools
#   runtime   the pins of requirements.lock, and a Chromium
#   dev       the pins of requirements-dev.lock, and a Chromium
#   tools     the pins of requirements-dev.lock, no Chromium (linting, types, building)
#
# PYTHON=…            the Python to use (default: the first that is 3.11 or newer)
# POOLSQL_CHROMIUM=…  the browser to use (default: the first Chromium, Chrome or Edge that is found)
#
# Exit codes: 0 all is there, 2 something is missing; the last line says what, and the command that helps.
set -eu
CDPATH='' cd -- "$(dirname -- "$0")/.."

venv=.venv
python=$venv/bin/python
stamp=$venv/set-up-done
unfinished=$venv/set-up-unfinished
log=$venv/set-up.log

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "poolsql: $*"
    exit 2
}

case ${1-} in
runtime) pins=runtime browser=yes ;;
dev) pins=dev browser=yes ;;
tools) pins=dev browser=no ;;
*) fail "usage: sh tools/set_up.sh runtime|dev|tools" ;;
esac

trap 'exit 130' INT
trap 'exit 143' TERM

# --- Python ----------------------------------------------------------------------------------------------------------

# Prints nothing and succeeds when $1 is a Python that is new enough.
is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# Sets `base` to a Python that can make a virtual environment.
choose_python() {
    without_venv=
    for base in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11; do
        if is_new_enough "$base"; then
            # Debian ships both modules without what they need; python3-venv brings it.
            "$base" -c 'import venv, ensurepip' >/dev/null 2>&1 && return
            : "${without_venv:=$base}"
        fi
        # A Python that was asked for by name is not replaced by another one.
        [ -z "${PYTHON-}" ] || break
    done
    if [ -n "$without_venv" ]; then
        case $without_venv in
        *[0-9].[0-9]*) package=${without_venv##*/}-venv ;;
        *) package=python3-venv ;;
        esac
        fail "$without_venv has no venv module; as root run: apt install $package"
    fi
    [ -z "${PYTHON-}" ] || fail "PYTHON=$PYTHON is not a Python 3.11 or newer that runs; name another one"
    fail "no Python 3.11 or newer found; install one (Debian 12 or newer, as root: apt install python3 python3-venv)"
}

# Holds a lock on this file until the script ends, so that two runs at a time do not work on one .venv. The lock belongs
# to descriptor 9, which the Python below only borrows; the kernel frees it however this script ends.
lock() {
    exec 9<tools/set_up.sh
    "$1" -c '
import fcntl, sys
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("waiting for another set-up that is running here", file=sys.stderr, flush=True)
    fcntl.flock(9, fcntl.LOCK_EX)
except OSError:
    pass  # a file system without locks
' || exit
}

# Prints two words: where .venv is and of which Python, and what is to be installed into it.
fingerprints() {
    "$python" -c '
import hashlib, os, pathlib, sys
files = ("requirements.lock", "requirements-dev.lock", "pyproject.toml")
home = os.fsencode(sys.prefix) + b" %d.%d" % sys.version_info[:2]
contents = b"\0".join(pathlib.Path(name).read_bytes() for name in files)
print(*(hashlib.sha256(part).hexdigest()[:16] for part in (home, contents)))
'
}

# Succeeds when the stamp says that the wanted pins (or more) are in .venv, for this place, this Python and these files.
is_installed() {
    [ -r $stamp ] && is_new_enough $python || return 1
    read -r had home contents <$stamp || return 1
    [ "$home $contents" = "$(fingerprints)" ] || return 1
    [ "$had" = dev ] || [ "$pins" = runtime ]
}

# Succeeds when there is a whole .venv here to install into: made by us at this place, or made by hand.
is_usable() {
    [ ! -e $unfinished ] && is_new_enough $python && "$python" -c 'import pip' 2>/dev/null || return 1
    [ -r $stamp ] || return 0
    read -r had home contents <$stamp || return 1
    now=$(fingerprints) && [ "$home" = "${now% *}" ]
}

# pip may have stopped by itself (no network): what is installed stays good. A signal may have left half a package.
pip_failed() {
    [ "$1" -gt 128 ] || rm -f $unfinished
    fail "could not install the pins into .venv, see above; once that is mended, run the same command again"
}

# The editable install names this directory in a .pth file, which Python before 3.13 reads in the locale's encoding:
# with LC_ALL=C an umlaut in the path would keep every Python of .venv from starting. A relative path has none.
make_link_relative() {
    for link in "$venv"/lib/python3.*/site-packages/*poolsql*.pth; do
        echo ../../../.. >"$link"
    done
}

install() {
    if ! is_usable; then
        [ -n "${base-}" ] || choose_python
        again=
        [ ! -e $venv ] || again=' anew: the one there is incomplete, moved or too old'
        say "making .venv$again"
        rm -rf $venv
        mkdir $venv
        : >$unfinished
        "$base" -m venv $venv || fail "$base could not make .venv, see above"
    fi
    : >$unfinished
    say "installing the $pins pins into .venv (the first time this downloads about 80 MB)"
    # The editable install needs its build back end, which the longer lock pins.
    case $pins in
    runtime) set -- -r requirements.lock -c requirements-dev.lock hatchling editables ;;
    dev) set -- -r requirements-dev.lock ;;
    esac
    $python -m pip install --quiet --disable-pip-version-check --no-input "$@" || pip_failed $?
    rm -f $stamp
    $python -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-build-isolation --editable . ||
        pip_failed $?
    make_link_relative
    printf '%s %s\n' $pins "$(fingerprints)" >$stamp.new
    mv $stamp.new $stamp
    rm -f $unfinished
}

# --- What pip cannot install -----------------------------------------------------------------------------------------

is_root() { [ "$(id -u)" = 0 ]; }
has_apt() { [ -e /etc/debian_version ] && command -v apt-get >/dev/null 2>&1; }
# Ubuntu's chromium package only fetches a snap, which containers cannot run.
has_debian_chromium() { has_apt && ! grep -q '^ID=ubuntu' /etc/os-release 2>/dev/null; }

apt_install() {
    {
        apt-get update -qq || true # a foreign source that fails must not stop Debian's own
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
    } >$log 2>&1 </dev/null 9<&- && return
    tail -n 5 $log >&2
    return 1
}

# Prints the browser's path, or one line that says why there is none; succeeds when there is one.
find_chromium() {
    code=0
    chromium=$($python -m poolsql.launchers.local.executable 2>$log) || code=$?
    case $code in
    0) return ;;
    2) return 1 ;;
    esac
    cat $log >&2
    fail "the search for a Chromium broke off, see above; to name one: POOLSQL_CHROMIUM=/path/to/it"
}

# Succeeds when the Node.js program that Playwright brings along starts.
driver_starts() { $python -m playwright --version >$log 2>&1; }

need_driver() {
    driver_starts && return
    grep -q 'libatomic\.so\.1' $log || {
        tail -n 5 $log >&2
        fail "Playwright's driver does not start, see above; try: rm -r .venv"
    }
    if has_apt && is_root; then
        say "installing Debian's libatomic1 (apt-get, as root): Playwright's driver needs it"
        apt_install libatomic1 || fail "could not install libatomic1; as root run: apt-get install -y libatomic1"
        driver_starts || fail "Playwright's driver does not start with libatomic1 either: $(tail -n 1 $log)"
    elif has_apt; then
        missing=libatomic1
        find_chromium || missing='libatomic1 chromium chromium-sandbox'
        fail "Playwright's driver needs libatomic1; as root run: apt-get install -y $missing"
    else
        fail "Playwright's driver needs the library libatomic.so.1; as root run: dnf install libatomic"
    fi
}

# Succeeds when the browser that was found starts; says why it does not.
chromium_starts() {
    "$chromium" --version >$log 2>&1 </dev/null || {
        say "$chromium does not start here: $(tail -n 1 $log)"
        return 1
    }
}

download_chromium() {
    say "no Chromium, Chrome or Edge found; trying Playwright's own (playwright install chromium)"
    PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT=${PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT:-5000} \
        $python tools/within.py 300 $python -m playwright install --no-shell chromium >$log 2>&1 </dev/null || {
        say "that download failed: $(sed -n 's/^Error: //p' $log | head -n 1)"
        return 1
    }
    find_chromium || {
        say "it was downloaded, but is not found"
        return 1
    }
}

need_chromium() {
    if find_chromium; then
        chromium_starts && return
        [ -z "${POOLSQL_CHROMIUM-}" ] || fail "POOLSQL_CHROMIUM=$POOLSQL_CHROMIUM does not start; name another browser"
    else
        # A browser that was asked for by name is not replaced by another one.
        [ -z "${POOLSQL_CHROMIUM-}" ] || fail "$(tail -n 1 $log)"
        download_chromium && chromium_starts && return
    fi
    if has_debian_chromium && is_root; then
        say "installing Debian's chromium (apt-get, as root), about 100 MB"
        apt_install chromium chromium-sandbox ||
            fail "could not install chromium; as root run: apt-get install -y chromium chromium-sandbox"
        find_chromium || fail "$(tail -n 1 $log)"
        chromium_starts || fail "name a browser that does: POOLSQL_CHROMIUM=/path/to/it"
    elif has_debian_chromium; then
        fail "no Chromium, Chrome or Edge that starts here; as root run: apt-get install -y chromium chromium-sandbox"
    else
        fail "no Chromium, Chrome or Edge that starts here; run: .venv/bin/playwright install --with-deps chromium"
    fi
}

# --- Do it -----------------------------------------------------------------------------------------------------------

if is_new_enough $python; then
    lock $python
else
    choose_python
    lock "$base"
fi
is_installed || install
if [ $browser = yes ]; then
    need_driver
    need_chromium
fi
