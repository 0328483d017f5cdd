"""Signals end the demo once, never in the middle of something, and always show in the exit code."""

# ruff: noqa: PT012 - what is raised where is the very matter of these blocks

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress

import pytest

from poolsql.demo.interrupts import NUMBERS, Interrupts


def send(number: signal.Signals = signal.SIGINT) -> None:
    """A signal that has arrived when this returns: it is handled before the next line of the main thread."""
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def handlers() -> object:
    before = [signal.getsignal(number) for number in NUMBERS]
    yield
    assert [signal.getsignal(number) for number in NUMBERS] == before, "a handler was left"
    return None


@pytest.mark.parametrize("number", NUMBERS)
def test_the_first_signal_interrupts(number: signal.Signals) -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), Interrupts():
        send(number)
        reached.append(1)
    assert reached == []


def test_further_signals_do_not_cut_the_taking_down_short() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), Interrupts():
        try:
            send()
        finally:
            send(signal.SIGTERM)
            send()
            reached.append(1)
    assert reached == [1]


def test_what_is_held_is_finished_first() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
        with interrupts.held(), interrupts.held():
            send()
            reached.append("inside")
        reached.append("after")
    assert reached == ["inside"]


def test_the_interrupt_wins_over_what_it_broke() -> None:
    """A terminal's Ctrl-C reaches the programs that were being waited for, too; their failure is not the story."""
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts, interrupts.held():
        send()
        raise ValueError("initdb was interrupted")


def test_a_signal_while_everything_is_taken_down_is_told_at_the_end() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
        interrupts.hold_for_good()
        send()
        reached.append(1)
    assert reached == [1]


def test_what_was_waited_for_is_no_error() -> None:
    reached = []
    with Interrupts() as interrupts:
        with suppress(KeyboardInterrupt):
            send()
        interrupts.forgive()
        reached.append(1)
    assert reached == [1]


def test_nothing_happens_without_a_signal() -> None:
    with Interrupts() as interrupts, interrupts.held():
        pass
    with pytest.raises(ValueError, match="its own"), Interrupts():
        raise ValueError("its own")


def test_other_threads_may_use_it() -> None:
    reached = []

    def use() -> None:
        with Interrupts() as interrupts, interrupts.held():
            reached.append(1)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert reached == [1]
