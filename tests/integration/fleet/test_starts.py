"""What a start of a browser does when its lease was lost on the way; without browsers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from poolsql.database.engine import Database
from poolsql.errors import LeaseLostError
from poolsql.fleet.browsers import Browsers
from poolsql.fleet.fleet import Fleet
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
