from __future__ import annotations

from pathlib import Path

import pytest

from poolsql.errors import BadInputError
from poolsql.settings import ENV_FILE_VARIABLE, Settings, load_settings, process_settings, secret_text


@pytest.fixture(autouse=True)
def current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory, in which a process looks for .env as it does outside of tests."""
    monkeypatch.chdir(tmp_path)
    # Set for all tests and their processes (tests/fixtures/databases.py), or this fails.
    monkeypatch.delenv(ENV_FILE_VARIABLE)
    return tmp_path


def test_without_any_setting_there_are_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    settings = load_settings()
    assert settings.database_url is None
    assert settings.direct_database_url is None
    assert settings.data_dir.name == "poolsql"
    assert settings.machine
    assert (settings.log, settings.log_level) == ("text", "INFO")
    assert (settings.statement_timeout, settings.lock_timeout, settings.connect_timeout) == (30, 5, 10)


def test_each_variable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "DATABASE_URL": "postgresql://h/d",
        "DIRECT_DATABASE_URL": "postgresql://h/direct",
        "DATA_DIR": "/data",
        "MACHINE": "box-1",
        "CHROMIUM": "/usr/bin/chromium",
        "LOG": "JSON",
        "LOG_LEVEL": "debug",
        "STATEMENT_TIMEOUT": "1.5",
        "LOCK_TIMEOUT": "0.5",
        "CONNECT_TIMEOUT": "3",
        "AGENT": "my-agent",
    }
    assert {name.lower() for name in values} == set(Settings.model_fields)
    for name, value in values.items():
        monkeypatch.setenv(f"POOLSQL_{name}", value)
    settings = load_settings()
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://h/d"
    assert settings.direct_database_url is not None
    assert settings.direct_database_url.get_secret_value() == "postgresql://h/direct"
    assert settings.model_dump(exclude={"database_url", "direct_database_url"}) == {
        "data_dir": Path("/data"),
        "machine": "box-1",
        "chromium": Path("/usr/bin/chromium"),
        "log": "json",
        "log_level": "DEBUG",
        "statement_timeout": 1.5,
        "lock_timeout": 0.5,
        "connect_timeout": 3,
        "agent": "my-agent",
    }


def test_unknown_and_empty_variables_are_ignored(monkeypatch: pytest.MonkeyPatch, current_directory: Path) -> None:
    monkeypatch.setenv("POOLSQL_SOMETHING_ELSE", "1")
    monkeypatch.setenv("POOLSQL_DATABASE_URL", "")
    monkeypatch.setenv("POOLSQL_LOCK_TIMEOUT", "")
    (current_directory / ".env").write_text("POOLSQL_UNKNOWN=1\nDATABASE_URL=postgresql://somebody/elses\n")
    settings = load_settings()
    assert settings.database_url is None
    assert settings.lock_timeout == 5


@pytest.mark.parametrize("name", ["POOLSQL_DATABSE_URL", "POOLSQL_DATABASE_URI", "POOLSQL_DATADIR", "POOLSQL_MASHINE"])
def test_a_variable_that_is_nearly_a_settings_name_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "geheim")
    with pytest.raises(BadInputError, match=f"{name} is no setting; did you mean POOLSQL_") as refused:
        load_settings()
    assert "geheim" not in str(refused.value)


def test_variables_of_a_cluster_with_our_prefix_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POOLSQL_SERVICE_HOST", "POOLSQL_SERVICE_PORT", "POOLSQL_PORT", "POOLSQL_PORT_5432_TCP_ADDR"):
        monkeypatch.setenv(name, "10.0.0.1")
    assert load_settings().database_url is None


def test_what_is_nearer_wins(monkeypatch: pytest.MonkeyPatch, current_directory: Path) -> None:
    text = "POOLSQL_MACHINE=from-file\nPOOLSQL_AGENT=from-file\nexport POOLSQL_DATA_DIR='/größe'\n"
    (current_directory / ".env").write_text(text, encoding="utf-8")
    monkeypatch.setenv("POOLSQL_AGENT", "from-environment")
    monkeypatch.setenv("POOLSQL_MACHINE", "from-environment")
    settings = load_settings(machine="from-call")
    assert (settings.machine, settings.agent, settings.data_dir) == ("from-call", "from-environment", Path("/größe"))


def test_another_file_can_be_named_or_none(monkeypatch: pytest.MonkeyPatch, current_directory: Path) -> None:
    (current_directory / ".env").write_text("POOLSQL_AGENT=usual\n")
    (current_directory / "other").write_text("POOLSQL_AGENT=other\n")
    assert load_settings().agent == "usual"
    monkeypatch.setenv(ENV_FILE_VARIABLE, str(current_directory / "other"))
    assert load_settings().agent == "other"
    monkeypatch.setenv(ENV_FILE_VARIABLE, "")
    assert load_settings().agent == "poolsql"


def test_a_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, current_directory: Path) -> None:
    (current_directory / ".env").write_bytes(b"POOLSQL_AGENT=\xff\n")
    with pytest.raises(BadInputError, match=r"settings: the file \.env does not hold UTF-8 text"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("LOG", "xml", "POOLSQL_LOG: Input should be 'text' or 'json'"),
        ("LOG_LEVEL", "LOUD", "POOLSQL_LOG_LEVEL: Input should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        ("STATEMENT_TIMEOUT", "0", "POOLSQL_STATEMENT_TIMEOUT: Input should be greater than or equal to 0.001"),
        ("STATEMENT_TIMEOUT", "nan", "POOLSQL_STATEMENT_TIMEOUT"),
        ("LOCK_TIMEOUT", "inf", "POOLSQL_LOCK_TIMEOUT"),
        ("LOCK_TIMEOUT", "-1", "POOLSQL_LOCK_TIMEOUT"),
        ("LOCK_TIMEOUT", "soon", "POOLSQL_LOCK_TIMEOUT: Input should be a valid number"),
        ("CONNECT_TIMEOUT", "1", "POOLSQL_CONNECT_TIMEOUT: Input should be greater than or equal to 2"),
        ("CONNECT_TIMEOUT", "2.5", "POOLSQL_CONNECT_TIMEOUT: Input should be a valid integer"),
        ("MACHINE", "m" * 201, "POOLSQL_MACHINE: String should have at most 200 characters"),
        ("AGENT", "my agent", "POOLSQL_AGENT: String should match pattern"),
    ],
)
def test_a_value_that_cannot_be_right_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"POOLSQL_{name}", value)
    with pytest.raises(BadInputError) as caught:
        load_settings()
    assert str(caught.value).startswith("settings: ")
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


def test_all_errors_are_told_at_once_without_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOLSQL_LOG", "geheim")
    monkeypatch.setenv("POOLSQL_AGENT", "geheim geheim")
    with pytest.raises(BadInputError) as caught:
        load_settings()
    assert "POOLSQL_LOG: " in str(caught.value)
    assert "POOLSQL_AGENT: " in str(caught.value)
    assert "geheim" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("databse_url", "there is no setting 'databse_url'; did you mean 'database_url'?"),
        ("colour", "there is no setting 'colour'"),
    ],
)
def test_a_setting_of_a_call_that_does_not_exist_is_refused(name: str, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        load_settings(**{name: 1})
    assert str(caught.value) == message


def test_places_are_absolute_and_know_where_home_is(monkeypatch: pytest.MonkeyPatch, current_directory: Path) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("POOLSQL_DATA_DIR", "~/fleet data")
    monkeypatch.setenv("POOLSQL_CHROMIUM", "browsers/chromium")
    settings = load_settings()
    assert settings.data_dir == Path("/home/ann/fleet data")
    assert settings.chromium == current_directory / "browsers" / "chromium"
    assert load_settings(data_dir=Path("here")).data_dir == current_directory / "here"


def test_a_place_that_is_none_is_refused() -> None:
    with pytest.raises(BadInputError, match="POOLSQL_DATA_DIR: Input is not a valid path"):
        load_settings(data_dir=5)


def test_a_home_directory_that_nobody_knows_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"POOLSQL_DATA_DIR: .* ~ stands for is not known"):
        load_settings(data_dir="~nobody-has-this-name/fleet")


def test_a_process_reads_its_settings_once(monkeypatch: pytest.MonkeyPatch) -> None:
    process_settings.cache_clear()
    monkeypatch.setenv("POOLSQL_AGENT", "first")
    first = process_settings()
    monkeypatch.setenv("POOLSQL_AGENT", "second")
    assert process_settings() is first
    process_settings.cache_clear()


# Secrets


def test_a_secret_comes_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", " with blanks ")
    assert secret_text("env:MY_SECRET") == " with blanks "


def test_a_secret_comes_from_a_file_without_the_blank_space_around_it(
    monkeypatch: pytest.MonkeyPatch, current_directory: Path
) -> None:
    monkeypatch.setenv("HOME", str(current_directory))
    place = current_directory / "my: secret"
    place.write_text("\n größe:1 \r\n", encoding="utf-8")
    assert secret_text(f"file:{place}") == "größe:1"
    assert secret_text("file:~/my: secret") == "größe:1"


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_variable_without_a_secret_is_named(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("MY_SECRET", raising=False)
    if value is not None:
        monkeypatch.setenv("MY_SECRET", value)
    with pytest.raises(BadInputError, match="secret env:MY_SECRET: the environment variable MY_SECRET is not set"):
        secret_text("env:MY_SECRET")


def test_a_file_without_a_secret_is_named(current_directory: Path) -> None:
    place = current_directory / "secret"
    with pytest.raises(BadInputError, match=rf"secret file:{place}: cannot read the file \(No such file"):
        secret_text(f"file:{place}")
    with pytest.raises(BadInputError, match=r"cannot read the file \(Is a directory\)"):
        secret_text(f"file:{current_directory}")
    place.write_text(" \n")
    with pytest.raises(BadInputError, match=rf"secret file:{place}: the file is empty"):
        secret_text(f"file:{place}")
    place.write_bytes(b"geheim\xff")
    with pytest.raises(BadInputError, match=rf"secret file:{place}: the file does not hold UTF-8 text") as caught:
        secret_text(f"file:{place}")
    assert caught.value.__suppress_context__
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("value", ["", "geheim", "env:", "file:", "ENV:X", "vault:geheim", "http://geheim", ":geheim"])
def test_what_is_no_reference_is_never_repeated(value: str) -> None:
    with pytest.raises(BadInputError, match="given by reference, as env:NAME or file:/path") as caught:
        secret_text(value)
    assert "geheim" not in str(caught.value)


def test_a_misspelt_setting_of_the_file_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings.env").write_text("POOLSQL_STATMENT_TIMEOUT=3\n")
    monkeypatch.setenv("POOLSQL_ENV_FILE", str(tmp_path / "settings.env"))
    with pytest.raises(BadInputError, match="did you mean POOLSQL_STATEMENT_TIMEOUT"):
        load_settings()
