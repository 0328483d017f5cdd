"""The settings of a process as people may see them: what they are, and where each comes from."""

from __future__ import annotations

import os
from dataclasses import dataclass

from poolsql.database.addresses import database_address, readable
from poolsql.settings import ENV_FILE_VARIABLE, Settings


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting."""

    name: str
    """Of its environment variable."""
    value: str | float | None
    """Without passwords."""
    source: str
    """``environment``, ``default``, or the file that it was read from."""


def setting_rows(settings: Settings) -> list[SettingRow]:
    """All settings in their order.

    Raises:
        BadInputError: The database's address is none.
    """
    set_in_environment = {name.upper() for name, value in os.environ.items() if value}
    rows: list[SettingRow] = []
    for field in type(settings).model_fields:
        name = f"POOLSQL_{field.upper()}"
        if name in set_in_environment:
            source = "environment"
        elif field in settings.model_fields_set:
            source = os.environ.get(ENV_FILE_VARIABLE, ".env")
        else:
            source = "default"
        rows.append(SettingRow(name, _value(settings, field, name), source))
    return rows


def _value(settings: Settings, field: str, name: str) -> str | float | None:
    match field:
        case "database_url" | "direct_database_url":
            secret = getattr(settings, field)
            return readable(database_address(secret.get_secret_value(), name=name)) if secret is not None else None
        case _:
            value = getattr(settings, field)
            return value if isinstance(value, int | float) or value is None else str(value)
