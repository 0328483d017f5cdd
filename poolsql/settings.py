"""Settings of one process: ``POOLSQL_*`` from the environment or a ``.env`` file."""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from platformdirs import user_data_path
from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from poolsql.errors import BadInputError


class Settings(BaseSettings):
    """What a process needs to know before it can reach the fleet; everything about the fleet itself is in tables."""

    model_config = SettingsConfigDict(env_prefix="POOLSQL_", env_file=".env", extra="ignore", env_ignore_empty=True)

    database_url: SecretStr | None = None
    """Postgres address (``postgresql://…`` or ``postgres://…``); without it the embedded server is used."""
    direct_database_url: SecretStr | None = None
    """Address that bypasses a connection pooler, for migrations, LISTEN and session locks; default: database_url."""
    data_dir: Annotated[Path, BeforeValidator(os.path.expanduser)] = Field(
        default_factory=lambda: user_data_path("poolsql", appauthor=False)
    )
    """Where the embedded server and the profile directories of `local` launchers live."""
    machine: str = Field(default_factory=socket.gethostname, min_length=1, max_length=200)
    """This machine's name in leases and profiles; must stay the same for as long as profile directories live here."""
    chromium: Path | None = None
    """Browser executable for `local` launchers; default: the first Chromium, Chrome or Edge that is found."""
    log: Literal["text", "json"] = "text"
    """Log format: one readable line a record, or one JSON object a line."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    statement_timeout: float = Field(default=30.0, gt=0, le=3600)
    """Seconds after which Postgres cancels a statement of ours."""
    lock_timeout: float = Field(default=5.0, gt=0, le=3600)
    """Seconds that a statement waits for a row lock."""
    connect_timeout: int = Field(default=10, ge=2, le=300)
    """Seconds for making one connection."""
    agent: str = Field(default="poolsql", pattern=r"^[A-Za-z0-9_-]+$")
    """Product token under which robots.txt is fetched and matched."""


def secret_text(value: str) -> str:
    """Resolve a secret reference: ``env:NAME`` or ``file:/path``; anything else is refused.

    Raises:
        BadInputError: The reference has another form, or what it names is missing or empty.
    """
    kind, _, place = value.partition(":")
    if kind == "env" and place:
        text = os.environ.get(place, "")
        if not text:
            raise BadInputError(f"secret {value}: the environment variable {place} is not set")
        return text
    if kind == "file" and place:
        try:
            text = Path(place).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise BadInputError(f"secret {value}: cannot read the file ({error.strerror})") from error
        if not text:
            raise BadInputError(f"secret {value}: the file is empty")
        return text
    raise BadInputError("a secret is given by reference, as env:NAME or file:/path, never as the value itself")


def load_settings(**overrides: object) -> Settings:
    """Read the settings; `overrides` win over the environment.

    Raises:
        BadInputError: A variable has a value that cannot be right; the message names each of them.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type]  # pydantic checks the values
    except ValidationError as error:
        lines = [
            f"POOLSQL_{str(problem['loc'][0]).upper()}: {problem['msg']}" if problem["loc"] else problem["msg"]
            for problem in error.errors(include_input=False)
        ]
        raise BadInputError("settings: " + "; ".join(lines)) from None


@lru_cache(maxsize=1)
def process_settings() -> Settings:
    """The settings of this process, read once."""
    return load_settings()
