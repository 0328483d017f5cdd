from __future__ import annotations

from pathlib import Path

import pytest

from poolsql.database.statements import Statement


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with two SQL files."""
    folder = tmp_path / "package_with_statements"
    (folder / "sql").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "sql" / "begin.sql").write_text("-- 100 % of it\nWITH a AS (\n    -- why\n    SELECT 'ü'\n)\n")
    (folder / "sql" / "end.sql").write_text("SELECT * FROM a WHERE x %% 3 = %(rest)s\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder.name


def test_files_are_joined_in_order_without_their_comments(package: str) -> None:
    statement = Statement.load(package, "begin", "end")
    assert statement.query == "WITH a AS (\n    SELECT 'ü'\n)\nSELECT * FROM a WHERE x %% 3 = %(rest)s"
    assert statement.numbered == "WITH a AS (\n    SELECT 'ü'\n)\nSELECT * FROM a WHERE x % 3 = $1".encode()
    assert repr(statement) == "Statement(begin+end)"


def test_a_file_that_is_missing_is_found_out_when_the_module_is_loaded(package: str) -> None:
    with pytest.raises(FileNotFoundError):
        Statement.load(package, "begin", "middle")


def test_a_parameter_has_one_number_wherever_it_stands() -> None:
    statement = Statement("three", "SELECT %(second)s, %(first)s, %(second)s, '%(none)', 7 %% 2")
    assert statement.numbered == b"SELECT $1, $2, $1, '%(none)', 7 % 2"
    assert statement.in_order({"first": 1, "second": 2, "another": 3}) == [2, 1]


def test_a_parameter_that_is_missing_is_no_null() -> None:
    with pytest.raises(KeyError, match="asked"):
        Statement("one", "SELECT %(asked)s").in_order({})
