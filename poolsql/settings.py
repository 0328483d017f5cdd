"""Settings of one process: ``POOLSQL_*`` from the environment or a ``.env`` file."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv import dotenv_values
from platformdirs import user_data_path
from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from poolsql.errors import BadInputError
from poolsql.redaction import remember_secret

ENV_FILE_VARIABLE = "POOLSQL_ENV_FILE"
"""Names another file than ``.env`` in the current directory; empty: none is read."""

_SECRET_REFERENCE = re.compile(r"env:\S+|file:.+")


def _expanded(value: object) -> object:
    # Absolute, so that it means the same after a change of the current directory.
    if not isinstance(value, str | Path):
        return value
    try:
        return Path(value).expanduser().absolute()
    except RuntimeError:
        raise ValueError("the home directory that ~ stands for is not known; write the path in full") from None


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


Place = Annotated[Path, BeforeValidator(_expanded)]


class Settings(BaseSettings):
    """What a process needs to know before it can reach the fleet; everything about the fleet itself is in tables."""

    model_config = SettingsConfigDict(
        env_prefix="POOLSQL_", env_file=".env", env_file_encoding="utf-8", extra="ignore", env_ignore_empty=True
    )

    database_url: SecretStr | None = None
    """Postgres address (``postgresql://…`` or ``postgres://…``); without it the embedded server is used."""
    direct_database_url: SecretStr | None = None
    """Address that bypasses a connection pooler, for migrations and session locks; default: database_url."""
    data_dir: Place = Field(default_factory=lambda: user_data_path("poolsql", appauthor=False))
    """Where the embedded server and the profile directories of `local` launchers live."""
    machine: str = Field(default_factory=socket.gethostname, min_length=1, max_length=200)
    """This machine's name in leases and profiles; must stay the same for as long as profile directories live here."""
    chromium: Place | None = None
    """Browser executable for `local` launchers; default: the first Chromium, Chrome or Edge that is found."""
    log: Annotated[Literal["text", "json"], BeforeValidator(_lower)] = "text"
    """Log format: one readable line a record, or one JSON object a line."""
    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)] = "INFO"
    """Records below this level are not logged."""
    statement_timeout: float = Field(default=30.0, ge=0.001, le=3600)
    """Seconds after which Postgres cancels a statement of ours."""
    lock_timeout: float = Field(default=5.0, ge=0.001, le=3600)
    """Seconds that a statement waits for a row lock."""
    connect_timeout: int = Field(default=10, ge=2, le=300)
    """Seconds for making one connection."""
    agent: str = Field(default="poolsql", pattern=r"^[A-Za-z0-9_-]+$")
    """Product token under which robots.txt is fetched and matched."""


def is_secret_reference(value: str) -> bool:
    """Whether it names a secret's place, as ``env:NAME`` or ``file:/path``, instead of being the secret."""
    return _SECRET_REFERENCE.fullmatch(value) is not None


def secret_text(value: str) -> str:
    """Resolve a secret reference: ``env:NAME`` or ``file:/path``; anything else is refused.

    From then on `redact` hides the secret.

    Raises:
        BadInputError: The reference has another form, or what it names is missing, unreadable or empty.
    """
    if not is_secret_reference(value):
        raise BadInputError("a secret is given by reference, as env:NAME or file:/path, never as the value itself")
    kind, _, place = value.partition(":")
    if kind == "env":
        text = os.environ.get(place, "")
        if not text.strip():
            raise BadInputError(f"secret {value}: the environment variable {place} is not set, or empty")
    else:
        text = _content(place, value)
    remember_secret(text)
    return text


def _content(path: str, reference: str) -> str:
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadInputError(f"secret {reference}: cannot read the file ({error.strerror})") from error
    except ValueError:
        # Not chained: the error holds what was read.
        raise BadInputError(f"secret {reference}: the file does not hold UTF-8 text") from None
    if not text:
        raise BadInputError(f"secret {reference}: the file is empty")
    return text


def load_settings(**overrides: object) -> Settings:
    """Read the settings; `overrides` win over the environment, which wins over the ``.env`` file.

    Raises:
        BadInputError: A variable has a value that cannot be right (the message names each of them), there is no
            setting of an override's name, a variable is nearly a setting's name, or the file cannot be read.
    """
    for name in overrides.keys() - Settings.model_fields.keys():
        alike = get_close_matches(name, Settings.model_fields, n=1)
        raise BadInputError(f"there is no setting {name!r}" + (f"; did you mean {alike[0]!r}?" if alike else ""))
    _refuse_misspelt(os.environ)
    file = os.environ.get(ENV_FILE_VARIABLE, ".env")
    values: dict[str, Any] = {"_env_file": file or None, **overrides}
    try:
        if file:
            _refuse_misspelt(dotenv_values(file))
        return Settings(**values)
    except ValidationError as error:
        lines = [
            f"POOLSQL_{str(problem['loc'][0]).upper()}: {problem['msg']}" if problem["loc"] else problem["msg"]
            for problem in error.errors(include_input=False)
        ]
        raise BadInputError("settings: " + "; ".join(lines)) from None
    except OSError as error:
        raise BadInputError(f"settings: cannot read the file {file} ({error.strerror})") from error
    except UnicodeError:
        raise BadInputError(f"settings: the file {file} does not hold UTF-8 text") from None


def _refuse_misspelt(environment: Mapping[str, str | None]) -> None:
    # Only what is nearly a setting's name: a cluster may set others of our prefix, such as POOLSQL_SERVICE_HOST.
    known = {f"POOLSQL_{name.upper()}" for name in Settings.model_fields} | {ENV_FILE_VARIABLE}
    for name in environment:
        if not name.upper().startswith("POOLSQL_") or name.upper() in known:
            continue
        alike = get_close_matches(name.upper(), known, n=1, cutoff=0.9)
        if alike:
            raise BadInputError(f"settings: {name} is no setting; did you mean {alike[0]}?")


@lru_cache(maxsize=1)
def process_settings() -> Settings:
    """The settings of this process, read once."""
    return load_settings()
