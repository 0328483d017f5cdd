from __future__ import annotations

import threading
import time
from math import inf, nan
from pathlib import Path

import pytest

from poolsql.database.embedded.locks import exclusive, opened, share_lock, try_lock, unlock
from poolsql.deadlines import Deadline
from poolsql.errors import BadInputError, DatabaseUnavailableError


@pytest.mark.parametrize("seconds", [0, -1, inf, nan])
def test_a_deadline_is_positive_and_finite(seconds: float) -> None:
    with pytest.raises(BadInputError, match="time-out"):
        Deadline(seconds)


def test_a_deadline_pauses_until_it_has_passed() -> None:
    deadline = Deadline(0.03)
    begin = time.monotonic()
    while deadline.pause():
        assert deadline.left() <= 0.03
    assert time.monotonic() - begin >= 0.03
    assert deadline.left() == 0


def test_the_exclusive_lock_needs_that_nobody_holds_any(tmp_path: Path) -> None:
    with opened(tmp_path / "lock") as first, opened(tmp_path / "lock") as second:
        share_lock(first)
        assert not try_lock(second)
        unlock(first)
        assert try_lock(second)
        assert not try_lock(first)
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_closing_frees_the_lock(tmp_path: Path) -> None:
    with opened(tmp_path / "lock") as descriptor:
        assert try_lock(descriptor)
    with opened(tmp_path / "lock") as descriptor:
        assert try_lock(descriptor)


def test_exclusive_blocks_run_one_after_the_other(tmp_path: Path) -> None:
    inside: list[str] = []

    def work(name: str) -> None:
        with exclusive(tmp_path / "lock", Deadline(30)):
            inside.append(name)
            time.sleep(0.005)
            inside.append(name)

    threads = [threading.Thread(target=work, args=[str(number)]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside[0::2] == inside[1::2]
    assert len(inside) == 12


def test_exclusive_gives_up_at_the_deadline_and_is_free_after_an_error(tmp_path: Path) -> None:
    with (
        exclusive(tmp_path / "lock", Deadline(1)),
        pytest.raises(DatabaseUnavailableError, match=str(tmp_path)),
        exclusive(tmp_path / "lock", Deadline(0.02)),
    ):
        pytest.fail("two are inside")
    with pytest.raises(ZeroDivisionError), exclusive(tmp_path / "lock", Deadline(1)):
        raise ZeroDivisionError
    with exclusive(tmp_path / "lock", Deadline(1)):
        pass
