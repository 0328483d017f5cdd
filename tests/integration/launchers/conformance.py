"""What every launcher must do, whichever product stands behind it.

A test class of a launcher kind inherits `LauncherConformance` and gives it a `bench` fixture.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Playwright

from poolsql.errors import BadInputError, LauncherError, LaunchFailedError, LaunchFault, StopNotProvenError
from poolsql.launchers.contract import BrowserHandle, Launcher, LaunchRequest, StopReport, StopRung

from .support import Site, page_of, recall, remember

START_SECONDS = 30.0
STOP_SECONDS = 10.0


class Bench(Protocol):
    """A launcher and what a test needs around it."""

    @property
    def launcher(self) -> Launcher:
        """The launcher under test."""
        ...

    @property
    def gentle_rung(self) -> StopRung:
        """How this kind stops a browser that has nothing against it."""
        ...

    def request(self, key: str) -> LaunchRequest:
        """A request for the profile with this name; the same name is always the same profile."""
        ...

    def stop_elsewhere(self, handle: BrowserHandle) -> StopReport:
        """Stop a browser from another process of the operating system, which knows nothing but the handle."""
        ...


def start(bench: Bench, key: str = "shop") -> BrowserHandle:
    """Start a profile's browser as a worker does."""
    request = bench.request(key)
    return bench.launcher.start(request, bench.launcher.prepare(request), timeout=START_SECONDS)


def taken_back(handle: BrowserHandle) -> BrowserHandle:
    """The handle as the reaper is given it, long after the lease was taken back."""
    return dataclasses.replace(handle, reclaiming_for=3600.0)


class LauncherConformance:
    """Tests of the contract; `bench` is given by the subclass."""

    def test_a_profile_survives_a_restart(self, bench: Bench, playwright: Playwright, site: Site) -> None:
        first = start(bench)
        remember(playwright, first.cdp_url, site, "me")
        report = bench.launcher.stop(first, timeout=STOP_SECONDS)
        second = start(bench)
        try:
            assert recall(playwright, second.cdp_url, site) == ("identity=me", "me")
        finally:
            bench.launcher.stop(second, timeout=STOP_SECONDS)
        assert report.rung is bench.gentle_rung
        assert 0 < report.seconds < STOP_SECONDS

    def test_two_profiles_share_nothing(self, bench: Bench, playwright: Playwright, site: Site) -> None:
        handles = [start(bench, "shop"), start(bench, "Shop")]
        try:
            remember(playwright, handles[0].cdp_url, site, "me")
            assert recall(playwright, handles[1].cdp_url, site) == ("", None)
            assert handles[0].cdp_url != handles[1].cdp_url
        finally:
            for handle in handles:
                bench.launcher.stop(handle, timeout=STOP_SECONDS)

    def test_a_second_start_is_refused_and_the_first_browser_lives(
        self, bench: Bench, playwright: Playwright, site: Site
    ) -> None:
        request = bench.request("shop")
        prepared = bench.launcher.prepare(request)
        first = bench.launcher.start(request, prepared, timeout=START_SECONDS)
        try:
            with pytest.raises(LaunchFailedError) as refused:
                bench.launcher.start(request, prepared, timeout=START_SECONDS)
            assert refused.value.fault is LaunchFault.PROFILE
            assert bench.launcher.is_running(first)
            assert recall(playwright, first.cdp_url, site) == ("", None)
        finally:
            bench.launcher.stop(first, timeout=STOP_SECONDS)

    def test_the_truth_about_running(self, bench: Bench) -> None:
        request = bench.request("shop")
        prepared = bench.launcher.prepare(request)
        assert not bench.launcher.is_running(prepared)
        started = bench.launcher.start(request, prepared, timeout=START_SECONDS)
        assert bench.launcher.is_running(started)
        assert bench.launcher.is_running(prepared), "the answer of a start can be lost, the browser is there"
        bench.launcher.stop(started, timeout=STOP_SECONDS)
        assert not bench.launcher.is_running(started)
        assert not bench.launcher.is_running(prepared)

    def test_stopping_what_does_not_run_is_no_error(self, bench: Bench) -> None:
        request = bench.request("shop")
        prepared = bench.launcher.prepare(request)
        assert bench.launcher.stop(taken_back(prepared), timeout=STOP_SECONDS).rung is StopRung.NOT_RUNNING
        started = bench.launcher.start(request, prepared, timeout=START_SECONDS)
        bench.launcher.stop(started, timeout=STOP_SECONDS)
        assert bench.launcher.stop(started, timeout=STOP_SECONDS).rung is StopRung.NOT_RUNNING
        assert bench.launcher.stop(taken_back(prepared), timeout=STOP_SECONDS).rung is StopRung.NOT_RUNNING

    def test_a_browser_whose_start_was_never_recorded_is_found_and_closed(
        self, bench: Bench, playwright: Playwright, site: Site
    ) -> None:
        request = bench.request("shop")
        prepared = bench.launcher.prepare(request)
        started = bench.launcher.start(request, prepared, timeout=START_SECONDS)
        remember(playwright, started.cdp_url, site, "me")
        assert bench.launcher.stop(taken_back(prepared), timeout=STOP_SECONDS).rung is bench.gentle_rung
        assert not bench.launcher.is_running(started)

    def test_another_process_stops_what_it_did_not_start(self, bench: Bench) -> None:
        started = start(bench)
        assert bench.stop_elsewhere(started).rung is bench.gentle_rung
        assert not bench.launcher.is_running(started)

    def test_an_old_address_reaches_no_later_browser(self, bench: Bench, playwright: Playwright) -> None:
        first = start(bench)
        bench.launcher.stop(first, timeout=STOP_SECONDS)
        second = start(bench)
        try:
            with pytest.raises(PlaywrightError), page_of(playwright, first.cdp_url):
                pass
        finally:
            bench.launcher.stop(second, timeout=STOP_SECONDS)

    def test_a_late_stop_leaves_a_later_browser_alone(self, bench: Bench) -> None:
        first = start(bench)
        bench.launcher.stop(first, timeout=STOP_SECONDS)
        second = start(bench)
        try:
            assert not bench.launcher.is_running(first)
            assert bench.launcher.stop(first, timeout=STOP_SECONDS).rung is StopRung.NOT_RUNNING
            assert bench.launcher.is_running(second)
        finally:
            bench.launcher.stop(second, timeout=STOP_SECONDS)

    def test_another_machine_proves_nothing(self, bench: Bench) -> None:
        if not bench.launcher.stops_here_only:
            pytest.skip("this launcher is reached from every machine")
        request = bench.request("shop")
        foreign = dataclasses.replace(bench.launcher.prepare(request), machine="elsewhere")
        with pytest.raises(StopNotProvenError, match="elsewhere"):
            bench.launcher.stop(foreign, timeout=STOP_SECONDS)
        with pytest.raises(LauncherError, match="elsewhere"):
            bench.launcher.is_running(foreign)
        with pytest.raises(LaunchFailedError, match="elsewhere"):
            bench.launcher.start(request, foreign, timeout=START_SECONDS)

    @pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan")])
    def test_a_time_without_an_end_is_refused(self, bench: Bench, timeout: float) -> None:
        request = bench.request("shop")
        prepared = bench.launcher.prepare(request)
        with pytest.raises(BadInputError, match="time-out"):
            bench.launcher.start(request, prepared, timeout=timeout)
        with pytest.raises(BadInputError, match="time-out"):
            bench.launcher.stop(prepared, timeout=timeout)
