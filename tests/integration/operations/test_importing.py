"""Lists of ids become profiles, all or none."""

from __future__ import annotations

import io
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from poolsql.errors import BadInputError, ConflictError, UnknownNameError
from poolsql.leasing import registry
from poolsql.leasing.policy import PoolPolicy
from poolsql.operations.importing import Imported, import_profiles, read_id_file
from tests.fixtures.fleets import Desk

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def run(desk: Desk, ids: list[str], **values: object) -> Imported:
    """Import into the desk's pool."""
    given = {"pool": desk.pool.name, "launcher": desk.launcher, "who": "ann@here", **values}
    return import_profiles(desk.database, ids, **given)  # type: ignore[arg-type]


def test_ids_become_profiles_with_their_tags(desk: Desk) -> None:
    assert run(desk, ["a", "b"], tags=["win11", "de", "de"], new=True, reason="bought") == Imported(2, 0)
    rows = desk.all(
        "SELECT key, state, tags, declared FROM poolsql.profiles WHERE pool_id = :pool AND tags <> '{}' ORDER BY key",
        pool=desk.pool.id,
    )
    assert [tuple(row) for row in rows] == [
        ("a", "new", ["de", "win11"], False),
        ("b", "new", ["de", "win11"], False),
    ]
    tags = desk.one(
        "SELECT count(*) FROM poolsql.profile_tags JOIN poolsql.profiles ON id = profile_id WHERE pool_id = :pool",
        pool=desk.pool.id,
    )
    assert tags.count == 4
    audited = desk.one(
        "SELECT who, reason FROM poolsql.audit WHERE action = 'profile import' AND subject LIKE '%' || :pool",
        pool=desk.pool.name,
    )
    assert tuple(audited) == ("ann@here", "bought")


def test_ids_that_are_there_are_left_alone_and_counted(desk: Desk) -> None:
    assert run(desk, ["a", "b"]) == Imported(2, 0)
    before = desk.all("SELECT * FROM poolsql.profiles WHERE pool_id = :pool ORDER BY id", pool=desk.pool.id)
    assert run(desk, ["b", "a"], tags=["x"]) == Imported(0, 2)
    assert desk.all("SELECT * FROM poolsql.profiles WHERE pool_id = :pool ORDER BY id", pool=desk.pool.id) == before
    assert run(desk, ["b", "c"]) == Imported(1, 1)


def test_ids_of_another_pool_are_named_and_nothing_is_added(desk: Desk) -> None:
    other = registry.define_pool(desk.database, f"other-{desk.pool.name}", PoolPolicy())
    run(desk, ["a", "b", "c"])
    with pytest.raises(ConflictError, match=rf"2 ids are in another pool: a \(pool {desk.pool.name}\), b \("):
        run(desk, ["a", "new", "b"], pool=other.name)
    assert desk.all("SELECT key FROM poolsql.profiles WHERE pool_id = :pool", pool=other.id) == []


def test_an_unknown_pool_or_launcher_is_refused(desk: Desk) -> None:
    with pytest.raises(UnknownNameError, match="there is no pool 'nowhere'"):
        run(desk, ["a"], pool="nowhere")
    with pytest.raises(UnknownNameError, match=f"there is no launcher '{desk.launcher}x'; did you mean"):
        run(desk, ["a"], launcher=f"{desk.launcher}x")


def test_a_hundred_thousand_ids_are_added_in_a_moment(desk: Desk) -> None:
    ids = [f"profile_{number:08x}" for number in range(100_000)]
    began = time.monotonic()
    assert run(desk, ids, tags=["bulk"]) == Imported(100_000, 0)
    assert run(desk, ids) == Imported(0, 100_000)
    assert time.monotonic() - began < 60


LIST = "\ufeffa1\r\n\r\n# a comment\r\n  b2 \t# another\r\nc#3\r\n".encode()


def test_a_list_may_have_comments_blank_lines_and_any_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "ids.txt"
    file.write_bytes(LIST)
    assert read_id_file(file) == ["a1", "b2", "c#3"]


def test_a_list_can_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(LIST)))
    assert read_id_file(None) == ["a1", "b2", "c#3"]


def test_all_wrong_lines_are_named_at_once(tmp_path: Path) -> None:
    file = tmp_path / "ids.txt"
    file.write_text(f"a\n{'x' * 501}\nb\nc\0d\na\n")
    with pytest.raises(BadInputError) as caught:
        read_id_file(file)
    told = str(caught.value)
    assert told.startswith(f"{file}: 3 lines are wrong: line 2: id 'xxx")
    assert "; line 4: id" in told
    assert told.endswith("; line 5: 'a' stands in line 1 already")


def test_a_list_without_ids_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ids.txt"
    file.write_bytes(b"# none\n\n")
    with pytest.raises(BadInputError, match=r"ids\.txt: names no id; write one a line"):
        read_id_file(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"ids.txt: cannot read the file \(No such file"):
        read_id_file(tmp_path / "ids.txt")
