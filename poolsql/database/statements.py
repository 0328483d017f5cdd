"""Hot statements: one SQL file each, read once, run on the pooled driver connection.

Going through SQLAlchemy's compiler at each call costs 40 % of the checkout rate, and having psycopg look for the
parameters of a long text anew a sixth of its time. The text is fixed, so it is prepared on the server (`prepared`), and
a reader sees the statement as Postgres does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

Parameters = Mapping[str, Any]

_PARAMETER = re.compile(r"%\((\w+)\)s")


class Statement:
    """One named SQL text with ``%(name)s`` parameters.

    Attributes:
        name: For logs and for the reader.
        query: The text as it was written, for SQLAlchemy's `exec_driver_sql`.
        numbered: The same with ``$1``, ``$2`` … in the place of names, as the server takes it.
    """

    __slots__ = ("_names", "name", "numbered", "query")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.query = text
        self._names = tuple(dict.fromkeys(_PARAMETER.findall(text)))
        numbers = {parameter: f"${number}" for number, parameter in enumerate(self._names, start=1)}
        self.numbered = _PARAMETER.sub(lambda match: numbers[match[1]], text).replace("%%", "%").encode()

    def in_order(self, parameters: Parameters) -> list[Any]:
        """The values of `numbered`."""
        return [parameters[name] for name in self._names]

    @classmethod
    def load(cls, package: str, *names: str, end: tuple[str, str] | None = None) -> Statement:
        """Read ``<name>.sql`` of a package's ``sql`` folder; several names are joined in order.

        Joining lets statements share their parts, such as the end of all those that close leases. `end` names the
        package and file of a last part that belongs to a higher layer.
        """
        places = [(package, name) for name in names] + ([end] if end is not None else [])
        parts = [
            _without_comments(files(folder).joinpath("sql").joinpath(f"{name}.sql").read_text(encoding="utf-8"))
            for folder, name in places
        ]
        return cls("+".join(name for _, name in places), "\n".join(parts))

    def __repr__(self) -> str:
        return f"Statement({self.name})"


def _without_comments(text: str) -> str:
    # The comments are for readers of the file; sent along they would be parsed at every call, and a percent sign
    # in one of them would count as a parameter.
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
