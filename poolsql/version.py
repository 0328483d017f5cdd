"""Which version of poolsql runs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def package_version() -> str:
    """The version that is installed; ``0`` in a source tree that is not."""
    try:
        return version("poolsql")
    except PackageNotFoundError:
        return "0"
