#!/bin/sh
# Writes requirements.lock and requirements-dev.lock from pyproject.toml: exact pins for every platform, no address.
# Pins that still fit stay; `sh tools/lock.sh --upgrade` takes the newest.
set -eu
CDPATH='' cd -- "$(dirname -- "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if command -v uv >/dev/null 2>&1; then
    uv=uv
else
    sh tools/set_up.sh tools
    echo "installing uv for this once" >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --target "$work/uv" 'uv>=0.9'
    uv=$work/uv/bin/uv
fi

# usage: compile FILE OPTION…
compile() {
    file=$1
    shift
    cp "$file" "$work/$file" 2>/dev/null || true # what is pinned now
    "$uv" pip compile --quiet pyproject.toml --universal --python-version 3.11 \
        --no-header --no-annotate --no-emit-index-url --output-file "$work/$file" "$@" >/dev/null
    if grep -nE '://| @ |^-' "$work/$file" >&2; then
        echo "poolsql: $file would hold an address or an option, see above; nothing was changed" >&2
        exit 2
    fi
}

compile requirements-dev.lock --group dev "$@"
# The shorter lock holds the same versions as the longer one.
compile requirements.lock --constraint "$work/requirements-dev.lock" "$@"
for file in requirements.lock requirements-dev.lock; do
    cmp -s "$work/$file" $file || echo "$file has changed" >&2
    cp "$work/$file" $file
done
