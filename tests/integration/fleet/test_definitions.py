"""Declaring a fleet by the public API: what cannot be right is refused, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from sqlalchemy import text

from poolsql import BadInputError, ConflictError, Fleet, Pool, UnknownNameError
from poolsql.database.engine import Database
from poolsql.settings import Settings

UNSTORABLE = ["", "  ", "a\0b", "half \ud800", "x" * 501]


@pytest.fixture
def fleet(database: Database, settings: Settings) -> Iterator[Fleet]:
    """A fleet without browsers."""
    with Fleet(database, settings) as opened:
        yield opened


@pytest.fixture
def shop(fleet: Fleet) -> Pool:
    """A pool of it."""
    fleet.define_launcher("local")
    return fleet.define_pool("shop")


@pytest.fixture
def unchanged(database: Database, shop: Pool) -> Iterator[None]:
    """The test changes nothing that is declared."""
    before = _declared(database)
    yield
    assert _declared(database) == before


def _declared(database: Database) -> Mapping[str, list[Any]]:
    with database.connect() as connection:
        return {
            table: list(connection.execute(text(f"SELECT * FROM poolsql.{table} ORDER BY id")).all())
            for table in ("pools", "launchers", "proxies", "profiles")
        }


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("name", UNSTORABLE)
def test_names_that_cannot_be_kept_are_refused(fleet: Fleet, shop: Pool, name: str) -> None:
    refused: list[Callable[[], object]] = [
        lambda: fleet.define_pool(name),
        lambda: fleet.define_launcher(name),
        lambda: fleet.define_launcher("other", machines=[name]),
        lambda: fleet.define_proxy(name, "http://127.0.0.1:1"),
        lambda: fleet.define_proxy("other", "http://127.0.0.1:1", username=name),
        lambda: shop.add_profile(name, launcher="local"),
        lambda: shop.add_profile("other", launcher="local", tags=[name]),
        lambda: shop.add_profile("other", launcher="local", seed=name),
        lambda: shop.browser(host=name),
        lambda: shop.checkout(tags=[name]),
    ]
    for declare in refused:
        with pytest.raises(BadInputError, match="must be a text of 1 to 500 characters"):
            declare()


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("name", [None, 5, b"shop", ["shop"]])
def test_what_is_no_text_is_no_name(fleet: Fleet, shop: Pool, name: Any) -> None:
    wrong: Any = name or 5  # where None means something
    refused: list[Callable[[], object]] = [
        lambda: fleet.pool(name),
        lambda: fleet.define_pool(name),
        lambda: fleet.define_proxy(name, "http://127.0.0.1:1"),
        lambda: fleet.define_proxy("other", name),
        lambda: fleet.define_proxy("other", "http://127.0.0.1:1", secret=wrong),
        lambda: shop.add_profile(name, launcher="local"),
        lambda: shop.add_profile("other", launcher=name),
        lambda: shop.browser(host=wrong),
        lambda: shop.checkout(tags=[name]),
    ]
    for declare in refused:
        with pytest.raises(BadInputError):
            declare()
    for tags in (None, 5):
        with pytest.raises(BadInputError, match="write a list of tags"):
            shop.checkout(tags=tags)  # type: ignore[arg-type]  # on purpose


@pytest.mark.usefixtures("unchanged")
def test_one_text_is_no_list(fleet: Fleet, shop: Pool) -> None:
    with pytest.raises(BadInputError, match="tags: 'de' is one text; write a list of tags"):
        shop.add_profile("other", launcher="local", tags="de")
    with pytest.raises(BadInputError, match="tags: 'de' is one text; write a list of tags"):
        shop.browser(tags="de")
    with pytest.raises(BadInputError, match="machines: 'here' is one text; write a list of machines"):
        fleet.define_launcher("other", machines="here")


@pytest.mark.usefixtures("unchanged")
def test_launchers_and_options_are_checked_when_they_are_declared(fleet: Fleet, shop: Pool) -> None:
    with pytest.raises(BadInputError, match="kind 'vendor' is not known; known are local"):
        fleet.define_launcher("other", kind="vendor")
    with pytest.raises(BadInputError, match=r"launcher other: .*headless: must be true or false.*args: must be"):
        fleet.define_launcher("other", headless="yes", args="--flag")
    with pytest.raises(BadInputError, match="colour: unknown"):
        shop.add_profile("other", launcher="local", options={"colour": "red"})
    with pytest.raises(UnknownNameError, match="no launcher 'nobody'"):
        shop.add_profile("other", launcher="nobody")


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "server",
    ["127.0.0.1:8080", "http://127.0.0.1", "http://127.0.0.1:port", "http://127.0.0.1:1/path", "http://:1", ""],
)
def test_a_proxy_needs_a_complete_address(fleet: Fleet, server: str) -> None:
    with pytest.raises(BadInputError, match="proxy 'isp': its server must have the form scheme://host:port"):
        fleet.define_proxy("isp", server)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "server", ["http://user:hunter2@127.0.0.1:1", "socks5://hunter2@127.0.0.1:1", "hunter2@host:1"]
)
def test_a_proxy_with_credentials_in_its_address_is_refused_and_they_are_not_repeated(
    fleet: Fleet, server: str
) -> None:
    with pytest.raises(BadInputError, match="as secret=, the latter as env:NAME or file:/path") as told:
        fleet.define_proxy("isp", server)
    assert "hunter2" not in str(told.value)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("secret", ["hunter2", "env:", "file:", "env:A B", "password:hunter2", ""])
def test_a_secret_is_a_reference_and_anything_else_is_not_repeated(fleet: Fleet, secret: str) -> None:
    with pytest.raises(BadInputError, match="never as the value") as told:
        fleet.define_proxy("isp", "http://127.0.0.1:1", username="me", secret=secret)
    assert "hunter2" not in str(told.value)


@pytest.mark.usefixtures("unchanged")
def test_a_policy_that_contradicts_itself_is_refused_in_whole(fleet: Fleet) -> None:
    with pytest.raises(BadInputError, match="must be less than half of ttl"):
        fleet.define_pool("shop", ttl="10s", renew="5s")


@pytest.mark.usefixtures("unchanged")
def test_a_wait_that_is_no_duration_is_refused_before_anything_is_leased(shop: Pool) -> None:
    for wait in ("soon", -1, "5 parsecs"):
        with pytest.raises(BadInputError, match="wait"):
            shop.browser(wait=wait)


@pytest.mark.parametrize("number", ["1", 0, -1, 2**63, True, 1.5])
def test_a_profile_is_asked_for_by_its_id(shop: Pool, number: Any) -> None:
    with pytest.raises(BadInputError, match="profile_id"):
        shop.checkout(profile_id=number)


def test_what_is_declared_can_be_borrowed(fleet: Fleet, shop: Pool) -> None:
    fleet.define_proxy("isp", "http://127.0.0.1:1", username="me", secret="env:ISP")
    known = shop.add_profile("p1", launcher="local", proxy="isp", tags=["de", "win11"], seed="7", options={"args": []})
    with pytest.raises(ConflictError, match="pinned to another profile"):
        shop.add_profile("p2", launcher="local", proxy="isp")
    with shop.lease(tags=["de"], task="NUL \0 and half \ud800") as lease:
        assert (lease.profile.id, lease.profile.seed, lease.profile.tags) == (known, "7", ("de", "win11"))
        with pytest.raises(BadInputError, match="there is no action 'burn'"):
            fleet.change_profile(known, "burn", who="me")
    fleet.change_profile(known, "pause", who="me", reason="why not")
    assert shop.status().counts == {"paused": 1}
    assert fleet.retire_due() == []
    with pytest.raises(UnknownNameError, match="there is no pool 'shoe'; known are"):
        fleet.pool("shoe")
