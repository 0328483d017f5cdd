"""A host that a caller spells in another way is the same host: a pause that did not see it would be no pause."""

from __future__ import annotations

import pytest

from poolsql import BadInputError, NoProfileAvailableError, Pool
from poolsql.database.engine import Database
from poolsql.leasing.outcomes import Outcome
from poolsql.operations.hosts import list_hosts, pause_host
from tests.fixtures.browsers import Ledger

SPELLINGS = [
    "Bücher.Example",
    "xn--bcher-kva.example.",
    " BÜCHER.example:443",
    "https://ann:secret@bücher.example/cart",
]
NO_HOSTS = ["", " ", "a b", "shop.example/cart/1", "ftp://shop.example", "shop.example:0", "shop\\.example", "x" * 600]


@pytest.mark.parametrize("host", SPELLINGS)
def test_a_paused_host_is_paused_in_every_spelling(shop: Pool, database: Database, host: str) -> None:
    pause_host(database, "xn--bcher-kva.example", how_long="1h", who="ann")
    with pytest.raises(NoProfileAvailableError, match=r"for xn--bcher-kva\.example .*1 host paused") as told:
        shop.checkout(host=host)
    assert told.value.next_free_at is not None


@pytest.mark.parametrize("host", SPELLINGS)
def test_what_a_site_told_counts_for_the_site(shop: Pool, database: Database, ledger: Ledger, host: str) -> None:
    shop.checkout().release(Outcome.RATE_LIMITED, host=host, retry_after="1h")
    (paused,) = [line for line in list_hosts(database) if line.paused_until is not None]
    assert paused.name == "xn--bcher-kva.example"
    assert ledger.last().host == "xn--bcher-kva.example"


@pytest.mark.parametrize("host", NO_HOSTS)
def test_what_cannot_be_a_host_changes_nothing(shop: Pool, ledger: Ledger, host: str) -> None:
    with pytest.raises(BadInputError):
        shop.checkout(host=host)
    assert ledger.leases() == []
    lease = shop.checkout()
    with pytest.raises(BadInputError):
        lease.release(Outcome.BLOCKED, host=host)
    assert (ledger.attempts(), lease.released, lease.lost) == ([], False, None)
    lease.release()
