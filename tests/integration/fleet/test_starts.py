"""What a start of a browser does when its lease was lost on the way, or its directory is taken; without browsers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from poolsql.database.engine import Database
from poolsql.errors import BadInputError, LaunchFailedError, LaunchFault, LeaseLostError
from poolsql.fleet.browsers import Browsers
from poolsql.fleet.fleet import Fleet
from poolsql.launchers.contract import BrowserHandle
from poolsql.launchers.local.launcher import LocalLauncher
from poolsql.leasing.lease import Lease
from poolsql.settings import Settings


def test_a_worker_that_was_frozen_before_its_start_starts_nothing_i3(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(LocalLauncher, "start", lambda *_, **__: started.append("a browser"))
    recorded = Lease.browser_starting

    def freeze_after(lease: Lease, browser: Mapping[str, Any], **more: Any) -> None:
        recorded(lease, browser, **more)
        lease.lose("it could not be renewed in time")

    monkeypatch.setattr(Lease, "browser_starting", freeze_after)
    with Fleet(database, settings) as fleet:
        fleet.define_launcher("local")
        shop = fleet.define_pool("shop")
        shop.add_profile("anna", launcher="local")
        lease = shop.checkout()
        with pytest.raises(LeaseLostError, match="could not be renewed in time"):
            Browsers(database, settings).start(lease, options={})
    assert started == []


def test_two_profiles_of_a_machine_cannot_have_one_directory(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[str | None] = []

    def start(_: LocalLauncher, request: object, handle: BrowserHandle, *, timeout: float) -> BrowserHandle:
        started.append(handle.directory)
        return handle.started(cdp_url="ws://127.0.0.1:1/")

    monkeypatch.setattr(LocalLauncher, "start", start)
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    own = {"directory": str(mine)}
    browsers = Browsers(database, settings)
    with Fleet(database, settings) as fleet:
        fleet.define_launcher("chromium")
        shop = fleet.define_pool("directories")
        one, two = (shop.add_profile(key, launcher="chromium", options=own) for key in ("one", "two"))
        lease = shop.checkout(profile_id=one)
        with pytest.raises(BadInputError, match="directory: belongs to one profile"):
            browsers.start(lease, options=own)
        browsers.start(lease, options={})
        lease.release(stop_rung="browser_close")
        with pytest.raises(LaunchFailedError, match="mine: another profile has it on machine") as told:
            shop.browser(profile_id=two).__enter__()
        assert (told.value.fault, told.value.stop_rung) == (LaunchFault.PROFILE, "not_running")
        with database.connect() as connection:
            assert (
                connection.execute(text("SELECT FROM poolsql.leases WHERE pool_id = :id"), {"id": shop.id}).all() == []
            )
            # The first one gives it up: that counts from its next start.
            connection.execute(
                text("UPDATE poolsql.profiles SET options = '{}', available_at = now() WHERE id = :id"), {"id": one}
            )
            connection.execute(text("UPDATE poolsql.profiles SET available_at = now() WHERE id = :id"), {"id": two})
        for profile_id in (one, two):
            lease = shop.checkout(profile_id=profile_id)
            browsers.start(lease, options={})
            lease.release(stop_rung="browser_close")
    assert started == [str(mine), str(settings.data_dir / "profiles" / "chromium" / "one"), str(mine)]
