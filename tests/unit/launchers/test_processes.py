from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from poolsql.launchers.processes import (
    LivingProcess,
    ProcessIdentity,
    identify,
    interrupt,
    is_alive,
    kill,
    living_processes,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sessions and signals")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()", "an argument"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "POOLSQL_TEST_CHILD": "yes"},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def identity_of(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    identity = identify(process.pid)
    assert identity is not None
    return identity


def listed(identity: ProcessIdentity) -> LivingProcess | None:
    return next((process for process in living_processes() if process.identity == identity), None)


def wait_for_zombie(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_a_process_keeps_its_name(child: subprocess.Popen[bytes]) -> None:
    first = identity_of(child)
    time.sleep(0.02)
    assert identify(child.pid) == first
    assert is_alive(first)


def test_two_processes_have_two_names(child: subprocess.Popen[bytes]) -> None:
    own = identify(os.getpid())
    assert own is not None
    assert own.mark != identity_of(child).mark


def test_a_zombie_has_a_name_but_is_not_alive(child: subprocess.Popen[bytes]) -> None:
    identity = identity_of(child)
    assert kill(identity)
    wait_for_zombie(child.pid)
    assert identify(child.pid) == identity
    assert not is_alive(identity)
    assert listed(identity) is None
    child.wait()
    assert identify(child.pid) is None
    assert not is_alive(identity)


def test_a_stopped_process_is_alive(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(19)  # SIGSTOP
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert is_alive(identity_of(child))


def test_the_owner_of_a_reused_id_gets_no_signal(child: subprocess.Popen[bytes]) -> None:
    former = dataclasses.replace(identity_of(child), mark="another boot/1")
    assert not is_alive(former)
    assert not kill(former)
    assert not interrupt(former)
    assert child.poll() is None


def test_signals_work_without_process_descriptors(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    identity = identity_of(child)
    assert not kill(dataclasses.replace(identity, mark="another boot/1"))
    assert kill(identity)
    assert child.wait() == -9
    assert not kill(identity)


def test_an_interrupt_is_what_ctrl_c_sends(child: subprocess.Popen[bytes]) -> None:
    assert interrupt(identity_of(child))
    assert child.wait() == -2


def test_living_processes_show_session_arguments_and_environment(child: subprocess.Popen[bytes]) -> None:
    process = listed(identity_of(child))
    assert process is not None
    assert process.session == child.pid
    assert process.arguments()[-1] == "an argument"
    assert process.environment()["POOLSQL_TEST_CHILD"] == "yes"


def test_the_caller_is_not_among_the_living_processes() -> None:
    own = identify(os.getpid())
    assert own is not None
    assert listed(own) is None


def test_what_ended_meanwhile_has_no_arguments(child: subprocess.Popen[bytes]) -> None:
    process = listed(identity_of(child))
    assert process is not None
    child.kill()
    child.wait()
    assert process.arguments() == []
    assert process.environment() == {}


def test_systems_without_start_ticks_use_the_reported_start_time(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poolsql.launchers.processes._HAS_START_TICKS", False)
    identity = identity_of(child)
    assert is_alive(identity)
    process = listed(identity)
    assert process is not None
    assert process.session == child.pid
    assert kill(identity)
    wait_for_zombie(child.pid)
    assert not is_alive(identity)
    child.wait()
    assert identify(child.pid) is None
