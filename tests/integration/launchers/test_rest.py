"""The launcher of kind `rest`, against an API that starts real browsers and can misbehave."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from poolsql.errors import LauncherError, LaunchFailedError, LaunchFault, LeaseLostError, StopNotProvenError
from poolsql.launchers.contract import BrowserHandle, LaunchRequest, StopReport, StopRung
from poolsql.launchers.rest import retrying, starting
from poolsql.launchers.rest.launcher import RestLauncher
from tests.fixtures.conditions import until
from tests.fixtures.justbrowser import TOKEN, JustBrowser, Trouble

from .conformance import START_SECONDS, STOP_SECONDS, LauncherConformance, start, taken_back
from .support import run_elsewhere, to_text

MACHINE = "this-machine"

STATUS = {
    "method": "GET",
    "path": "/profiles/{id}",
    "value": "data.running",
    "states": {"true": "running", "false": "stopped"},
}

STOP = """
import json, sys
from poolsql.launchers.contract import BrowserHandle
from poolsql.launchers.rest.launcher import RestLauncher
handle = BrowserHandle.from_json(json.loads(sys.argv[2]))
report = RestLauncher("jb", sys.argv[3], json.loads(sys.argv[1])).stop(handle, timeout=10)
print(json.dumps([report.rung, report.seconds]))
"""


class RestBench:
    """A `rest` launcher and the product that it asks."""

    gentle_rung = StopRung.VENDOR

    def __init__(self, product: JustBrowser) -> None:
        self.product = product
        self.waited: list[float] = []
        self.launcher = self.launcher_with(status=STATUS)

    def launcher_with(self, **options: Any) -> RestLauncher:
        self.options = {
            "preset": "justbrowser",
            "token": "env:JB_TOKEN",
            "base_url": self.product.base_url,
            **options,
        }
        return RestLauncher("jb", MACHINE, self.options, sleep=self.waited.append)

    def request(self, key: str, **more: Any) -> LaunchRequest:
        return LaunchRequest(lease_id=1, profile_id=1, profile_key=key, **more)

    def stop_elsewhere(self, handle: BrowserHandle) -> StopReport:
        rung, seconds = json.loads(run_elsewhere(STOP, to_text(self.options), to_text(handle.to_json()), MACHINE))
        return StopReport(rung=StopRung(rung), seconds=seconds)

    def prepared(self, key: str = "shop") -> BrowserHandle:
        return self.launcher.prepare(self.request(key))

    def recorded(self, key: str = "shop") -> BrowserHandle:
        """What the reaper is given of a browser whose address was never learned, once its start must be over."""
        return taken_back(self.prepared(key))


@pytest.fixture
def product(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JustBrowser]:
    monkeypatch.setenv("JB_TOKEN", TOKEN)
    with JustBrowser(data_dir, unknown={"nobody"}) as running:
        yield running


@pytest.fixture
def bench(product: JustBrowser) -> RestBench:
    return RestBench(product)


@pytest.fixture
def trusting(bench: RestBench) -> RestBench:
    """The same as the preset has it: without a status action."""
    bench.launcher = bench.launcher_with()
    return bench


def fail(bench: RestBench, key: str = "shop", *, timeout: float = START_SECONDS) -> LaunchFailedError:
    """A start that has to fail."""
    with pytest.raises(LaunchFailedError) as told:
        bench.launcher.start(bench.request(key), bench.prepared(key), timeout=timeout)
    assert TOKEN not in str(told.value)
    return told.value


class TestConformance(LauncherConformance):
    """The rest launcher keeps the contract."""


class TestStarting:
    def test_the_request_is_the_one_that_the_product_knows(self, trusting: RestBench) -> None:
        handle = start(trusting)
        (asked,) = trusting.product.asked
        assert (asked.action, asked.key, asked.body) == ("start", "shop", {"headless": False})
        assert asked.headers["Authorization"] == f"Bearer {TOKEN}"
        assert asked.headers["User-Agent"].startswith("poolsql/")
        trusting.launcher.stop(handle, timeout=STOP_SECONDS)
        assert trusting.product.count("stop") == 1
        assert trusting.product.asked[-1].body is None

    def test_headless_is_the_launchers_unless_the_start_says_otherwise(self, trusting: RestBench) -> None:
        trusting.launcher = trusting.launcher_with(headless=True)
        for options, expected in (({}, True), ({"headless": False}, False)):
            request = trusting.request("shop", options=options)
            handle = trusting.launcher.start(request, trusting.launcher.prepare(request), timeout=START_SECONDS)
            assert trusting.product.asked[-1].body == {"headless": expected}
            trusting.launcher.stop(handle, timeout=STOP_SECONDS)

    def test_nothing_of_the_environment_is_used(self, trusting: RestBench, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        trusting.launcher.stop(start(trusting), timeout=STOP_SECONDS)
        assert (trusting.product.count("start"), trusting.product.count("stop")) == (1, 1), "the product was reached"

    def test_an_unknown_id_is_the_profiles_fault_and_nothing_runs(self, trusting: RestBench) -> None:
        error = fail(trusting, "nobody")
        assert (error.fault, error.stop_rung) == (LaunchFault.PROFILE, "not_running")
        assert "profile nobody" in str(error)
        assert "check the base URL" in str(error)
        assert (trusting.waited, trusting.product.count("start"), trusting.product.count("stop")) == ([], 1, 0)

    @pytest.mark.parametrize("status", [401, 403])
    def test_a_refused_token_is_the_launchers_fault_and_not_tried_again(self, trusting: RestBench, status: int) -> None:
        trusting.product.plan("shop", "start", Trouble.STATUS, status=status)
        error = fail(trusting)
        assert (error.fault, error.stop_rung) == (LaunchFault.LAUNCHER, "not_running")
        assert "token refused" in str(error)
        assert trusting.waited == []

    def test_a_wrong_token_is_told_without_repeating_it(
        self, trusting: RestBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("JB_TOKEN", "wrong-canary-77aa")
        error = fail(trusting)
        assert "token refused" in str(error)
        assert "wrong-canary" not in str(error)

    def test_a_token_that_is_not_there_is_the_launchers_fault(
        self, trusting: RestBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("JB_TOKEN")
        error = fail(trusting)
        assert (error.fault, error.stop_rung) == (LaunchFault.LAUNCHER, "not_running")
        assert "JB_TOKEN is not set" in str(error)
        assert trusting.product.asked == []

    def test_three_more_tries_after_2_4_and_8_seconds_and_a_little_more(self, trusting: RestBench) -> None:
        trusting.product.plan("shop", "start", Trouble.STATUS, status=500, times=4)
        error = fail(trusting)
        assert error.fault is LaunchFault.LAUNCHER
        assert trusting.product.count("start") == 4
        for waited, base in zip(trusting.waited, (2, 4, 8), strict=True):
            assert base <= waited <= base * 1.25
        assert error.stop_rung == "not_running", "the product says that nothing runs"

    def test_the_last_of_four_tries_may_be_the_good_one(self, trusting: RestBench) -> None:
        trusting.product.plan("shop", "start", Trouble.STATUS, status=503, times=3)
        handle = start(trusting)
        assert trusting.launcher.is_running(handle)
        trusting.launcher.stop(handle, timeout=STOP_SECONDS)

    def test_no_try_begins_when_the_time_is_over(self, trusting: RestBench) -> None:
        trusting.product.plan("shop", "start", Trouble.STATUS, status=500, times=4)
        fail(trusting, timeout=4)
        assert len(trusting.waited) == 1, "the second wait would end after the time for tries"

    def test_a_retry_after_is_obeyed(self, trusting: RestBench) -> None:
        trusting.product.plan("shop", "start", Trouble.STATUS, status=429, headers={"Retry-After": "7"})
        handle = start(trusting)
        (waited,) = trusting.waited
        assert 7 <= waited <= 7.5
        trusting.launcher.stop(handle, timeout=STOP_SECONDS)

    def test_a_retry_after_beyond_the_time_ends_the_start(self, trusting: RestBench) -> None:
        trusting.product.plan("shop", "start", Trouble.STATUS, status=429, headers={"Retry-After": "3600"})
        error = fail(trusting)
        assert (error.fault, error.stop_rung) == (LaunchFault.LAUNCHER, "not_running")
        assert "asks to wait 3600 s" in str(error)
        assert (trusting.waited, trusting.product.count("stop")) == ([], 0)

    def test_a_product_that_does_not_run_is_told_and_nothing_of_it_runs(self, trusting: RestBench) -> None:
        trusting.product.close_api()
        error = fail(trusting)
        assert (error.fault, error.stop_rung) == (LaunchFault.LAUNCHER, "not_running")
        assert "start the product" in str(error)
        assert len(trusting.waited) == 3

    @pytest.mark.parametrize("trouble", [Trouble.LOST_ANSWER, Trouble.HALF_JSON])
    def test_a_browser_whose_answer_was_lost_is_stopped_before_the_next_try_i3(
        self, trusting: RestBench, trouble: Trouble
    ) -> None:
        trusting.product.plan("shop", "start", trouble)
        handle = start(trusting)
        assert [asked.action for asked in trusting.product.asked] == ["start", "stop", "start"]
        assert trusting.launcher.is_running(handle)
        trusting.launcher.stop(handle, timeout=STOP_SECONDS)

    @pytest.mark.parametrize("trouble", [Trouble.LOST_ANSWER, Trouble.HALF_JSON])
    def test_no_browser_is_left_when_every_answer_is_lost_i3(
        self, trusting: RestBench, monkeypatch: pytest.MonkeyPatch, trouble: Trouble
    ) -> None:
        monkeypatch.setattr(retrying, "WAITS", (0.01,))
        trusting.product.always("start", trouble)
        error = fail(trusting)
        assert (error.fault, error.stop_rung) == (LaunchFault.LAUNCHER, "vendor_stop")
        assert (trusting.product.count("start"), trusting.product.runs("shop")) == (2, False)

    def test_a_start_that_may_have_left_a_browser_says_so_i3(self, trusting: RestBench) -> None:
        trusting.product.always("start", Trouble.LOST_ANSWER)
        trusting.product.always("stop", Trouble.STATUS, status=401)
        error = fail(trusting)
        assert error.stop_rung is None
        assert "may run all the same" in str(error)
        assert error.fault is LaunchFault.LAUNCHER, "in use by itself, after its first try"
        assert trusting.product.runs("shop")

    @pytest.mark.parametrize("options", [{}, {"status": STATUS}])
    def test_a_start_that_is_still_under_way_is_not_taken_for_one_that_failed_i3(
        self, bench: RestBench, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
    ) -> None:
        bench.launcher = bench.launcher_with(request_timeout="0.5s", **options)
        bench.product.plan("shop", "start", Trouble.SLOW, seconds=600)
        prepared, now = bench.prepared(), time.time
        error = fail(bench, timeout=1)
        assert "start may still be under way" in str(error)
        assert error.stop_rung is None
        with pytest.raises(StopNotProvenError, match="under way"):
            bench.launcher.stop(prepared, timeout=STOP_SECONDS)
        bench.product.hurry()
        until(lambda: bench.product.runs("shop"))
        if not options:
            with pytest.raises(StopNotProvenError, match="under way"):
                bench.launcher.stop(prepared, timeout=STOP_SECONDS)
        else:
            assert bench.launcher.stop(prepared, timeout=STOP_SECONDS).rung is StopRung.VENDOR, "it was seen running"
        assert not bench.product.runs("shop")
        # An hour later by the clock of this machine, and too early by the only one that counts.
        monkeypatch.setattr(time, "time", lambda: now() + 3600)
        for seconds in (None, -3600.0, 0.0, 79.9):
            early = replace(prepared, reclaiming_for=seconds)
            with pytest.raises(StopNotProvenError, match="under way"):
                bench.launcher.stop(early, timeout=STOP_SECONDS)
        in_time = replace(prepared, reclaiming_for=80.0)
        assert bench.launcher.stop(in_time, timeout=STOP_SECONDS).rung is StopRung.NOT_RUNNING

    def test_a_slow_answer_ends_by_the_time_of_a_request(self, trusting: RestBench) -> None:
        trusting.launcher = trusting.launcher_with(request_timeout="0.5s")
        trusting.product.plan("shop", "start", Trouble.SLOW, seconds=60)
        trusting.product.always("stop", Trouble.STATUS, status=401)
        began = time.monotonic()
        error = fail(trusting, timeout=2)
        assert time.monotonic() - began < 20
        assert "no complete answer within 0.5 s" in str(error)
        assert error.stop_rung is None

    @pytest.mark.parametrize(
        ("address", "expected"),
        [
            (None, "is no address"),
            (17, "is no address"),
            ("chrome://version", "schemes"),
            ("http:///json", "schemes"),
            ("ws://127.0.0.1:1/devtools/browser/x", "accepts connections"),
            (f"ws://127.0.0.1:9/?token={TOKEN}", "holds a secret"),
        ],
    )
    def test_what_is_no_address_of_a_browser_is_the_launchers_fault_and_the_browser_is_stopped(
        self, trusting: RestBench, monkeypatch: pytest.MonkeyPatch, address: object, expected: str
    ) -> None:
        monkeypatch.setattr(starting, "_OPENS", (0.5, 0.2))
        trusting.product.plan("shop", "start", Trouble.OTHER_ADDRESS, address=address)
        error = fail(trusting)
        assert expected in str(error)
        assert (error.fault, error.stop_rung) == (LaunchFault.LAUNCHER, "vendor_stop")
        assert not trusting.product.runs("shop")

    def test_an_answer_without_an_address_is_the_launchers_fault(self, trusting: RestBench) -> None:
        trusting.launcher = trusting.launcher_with(cdp_url="data.ws.puppeteer")
        error = fail(trusting)
        assert "data.ws.puppeteer" in str(error)
        assert (error.fault, error.stop_rung) == (LaunchFault.LAUNCHER, "vendor_stop")

    def test_nothing_more_is_started_when_the_lease_is_lost(self, trusting: RestBench) -> None:
        trusting.product.plan("shop", "start", Trouble.STATUS, status=500, times=4)

        def still_wanted() -> None:
            if trusting.product.asked:
                raise LeaseLostError("lost, says the test")

        request = trusting.request("shop", still_wanted=still_wanted)
        with pytest.raises(LeaseLostError):
            trusting.launcher.start(request, trusting.prepared(), timeout=START_SECONDS)
        assert [asked.action for asked in trusting.product.asked] == ["start"]

    def test_an_id_that_would_name_another_path_is_refused(self, trusting: RestBench) -> None:
        with pytest.raises(LaunchFailedError, match="cannot be a part of an address"):
            trusting.prepared("..")
        encoded = "nobody%2F..%2F..%2Fshop%3Fx%3D1%23y"
        trusting.product.unknown.add(encoded)
        assert fail(trusting, "nobody/../../shop?x=1#y").fault is LaunchFault.PROFILE
        assert [asked.key for asked in trusting.product.asked] == [encoded]


class TestStopping:
    @pytest.fixture
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retrying, "WAITS", (0.01, 0.02, 0.04))

    def test_a_lie_about_a_stop_is_not_believed_i3(self, trusting: RestBench) -> None:
        handle = start(trusting)
        trusting.product.plan("shop", "stop", Trouble.LIE)
        with pytest.raises(StopNotProvenError, match="may still run after"):
            trusting.launcher.stop(handle, timeout=1)
        assert trusting.launcher.is_running(handle)
        assert trusting.launcher.stop(handle, timeout=STOP_SECONDS).rung is StopRung.VENDOR

    def test_a_lie_about_a_stop_is_not_believed_when_only_the_status_can_tell_i3(self, bench: RestBench) -> None:
        start(bench)
        bench.product.plan("shop", "stop", Trouble.LIE)
        with pytest.raises(StopNotProvenError, match="does not call it stopped"):
            bench.launcher.stop(bench.recorded(), timeout=1)
        assert bench.launcher.is_running(bench.prepared())

    def test_a_refused_stop_of_a_running_browser_proves_nothing(self, trusting: RestBench) -> None:
        handle = start(trusting)
        trusting.product.plan("shop", "stop", Trouble.STATUS, status=404)
        began = time.monotonic()
        with pytest.raises(StopNotProvenError, match="answered 404"):
            trusting.launcher.stop(handle, timeout=STOP_SECONDS)
        assert time.monotonic() - began < STOP_SECONDS - 2, "waiting longer helps nobody"

    def test_a_stop_whose_answer_is_lost_is_proven_by_the_address(self, trusting: RestBench) -> None:
        handle = start(trusting)
        trusting.product.always("stop", Trouble.LOST_ANSWER)
        assert trusting.launcher.stop(handle, timeout=STOP_SECONDS).rung is StopRung.VENDOR
        assert trusting.product.count("stop") == 1

    @pytest.mark.usefixtures("at_once")
    def test_a_stop_is_tried_again(self, trusting: RestBench) -> None:
        handle = start(trusting)
        trusting.product.plan("shop", "stop", Trouble.STATUS, status=500, times=3)
        assert trusting.launcher.stop(handle, timeout=STOP_SECONDS).rung is StopRung.VENDOR
        assert trusting.product.count("stop") == 4

    def test_a_browser_that_ended_by_itself_is_not_asked_about(self, trusting: RestBench) -> None:
        handle = start(trusting)
        trusting.product.stop("shop")
        trusting.product.close_api()
        assert trusting.launcher.stop(handle, timeout=STOP_SECONDS).rung is StopRung.NOT_RUNNING

    def test_without_an_address_the_product_has_to_confirm(self, trusting: RestBench) -> None:
        start(trusting)
        prepared = trusting.recorded()
        with pytest.raises(LauncherError, match="no status action"):
            trusting.launcher.is_running(prepared)
        assert trusting.launcher.stop(prepared, timeout=STOP_SECONDS).rung is StopRung.VENDOR
        assert not trusting.product.runs("shop")
        assert trusting.launcher.stop(prepared, timeout=STOP_SECONDS).rung is StopRung.NOT_RUNNING
        assert trusting.launcher.stop(trusting.recorded("nobody"), timeout=STOP_SECONDS).rung is StopRung.NOT_RUNNING

    @pytest.mark.usefixtures("at_once")
    def test_without_an_address_and_without_an_api_nothing_is_proven_i3(self, trusting: RestBench) -> None:
        trusting.product.close_api()
        with pytest.raises(StopNotProvenError, match="never learned"):
            trusting.launcher.stop(trusting.recorded(), timeout=STOP_SECONDS)

    def test_an_address_of_another_machines_loopback_proves_nothing(self, trusting: RestBench) -> None:
        trusting.launcher = trusting.launcher_with(base_url="http://vendor.example:1")
        assert not trusting.launcher.stops_here_only
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
        here = replace(trusting.prepared(), cdp_url=f"ws://127.0.0.1:{port}/")
        assert not trusting.launcher.is_running(here)
        elsewhere = replace(here, machine="elsewhere")
        with pytest.raises(StopNotProvenError, match="machine elsewhere"):
            trusting.launcher.stop(elsewhere, timeout=1)
        with pytest.raises(LauncherError, match="machine elsewhere"):
            trusting.launcher.is_running(elsewhere)

    def test_a_port_that_accepts_and_never_answers_proves_nothing(self, trusting: RestBench) -> None:
        trusting.launcher = trusting.launcher_with(request_timeout="0.5s")
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            port = deaf.getsockname()[1]
            for scheme in ("ws", "http"):
                handle = replace(trusting.prepared(), cdp_url=f"{scheme}://127.0.0.1:{port}/")
                assert trusting.launcher.is_running(handle)
        for scheme in ("ws", "http"):
            handle = replace(trusting.prepared(), cdp_url=f"{scheme}://127.0.0.1:{port}/")
            assert not trusting.launcher.is_running(handle)

    def test_a_name_that_cannot_be_looked_up_proves_nothing(self, trusting: RestBench) -> None:
        assert trusting.launcher.is_running(replace(trusting.prepared(), cdp_url="ws://no-such-host.invalid:1/"))


def test_the_token_is_in_no_error_log_or_handle_i11(trusting: RestBench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    written: list[str] = []
    for status in (400, 401, 404, 409, 429, 500):
        trusting.product.always("start", Trouble.STATUS, status=status)
        error = fail(trusting)
        assert str(status) in str(error)
        written += [str(error), repr(error)]
    trusting.product.behave()
    handle = start(trusting)
    written += [json.dumps(handle.to_json()), repr(trusting.launcher.stop(handle, timeout=STOP_SECONDS))]
    written += [record.getMessage() for record in caplog.records]
    assert written
    assert TOKEN not in "\n".join(written)


def test_a_body_is_quoted_in_errors_only_so_far(trusting: RestBench) -> None:
    trusting.product.always("start", Trouble.STATUS, status=400)
    assert "[hidden]" in str(fail(trusting))
