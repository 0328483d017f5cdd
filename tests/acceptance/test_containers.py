"""The files from which containers and services are made: what matters in them, and what the tools say about them."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from poolsql.durations import parse_duration

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
SECCOMP = ROOT / "docs" / "browser-seccomp.json"
SERVICE = ROOT / "docs" / "poolsql.service"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    return found


@pytest.fixture(scope="module")
def dockerfile() -> list[tuple[str, str]]:
    """The instructions of the last stage, after those that come before any: name and rest."""
    text = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8")))
    lines = [
        (name.upper(), " ".join(rest.split())) for name, _, rest in (line.partition(" ") for line in text.splitlines())
    ]
    return [(name, rest) for name, rest in lines if name]


def last(dockerfile: list[tuple[str, str]], name: str) -> str:
    return [rest for instruction, rest in dockerfile if instruction == name][-1]


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # Compose would read an .env of the developer's.
    given = {**os.environ, "COMPOSE_ENV_FILES": os.devnull, **environment}
    return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=120, check=False)


def compose(*arguments: str, **environment: str) -> str:
    """What Compose says, in whichever form it is installed."""
    if shutil.which("docker-compose"):
        command = ["docker-compose"]
    elif shutil.which("docker") and run("docker", "compose", "version").returncode == 0:
        command = ["docker", "compose"]
    else:
        pytest.skip("there is no Compose here; apt install docker-compose")
    done = run(*command, "--file", str(COMPOSE), *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_compose_accepts_its_file() -> None:
    assert compose("config", "--quiet") == ""


def test_images_and_password_come_from_the_environment() -> None:
    told = compose(
        "config",
        POSTGRES_IMAGE="mirror.test/pg:18.1",
        PYTHON_IMAGE="mirror.test/py:3.12",
        POSTGRES_PASSWORD="a b:c/d@e",
    )
    resolved = yaml.safe_load(told)["services"]
    assert resolved["postgres"]["image"] == "mirror.test/pg:18.1"
    assert resolved["daemon"]["build"]["args"]["BASE"] == "mirror.test/py:3.12"
    assert resolved["postgres"]["environment"]["POSTGRES_PASSWORD"] == "a b:c/d@e"
    assert resolved["daemon"]["environment"]["PGPASSWORD"] == "a b:c/d@e"


def test_hadolint_has_nothing_to_say() -> None:
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("there is no hadolint here; its wheel is for Linux and macOS")
    done = run(hadolint, "--failure-threshold", "warning", "Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


def test_no_password_is_in_the_file(services: dict[str, Any]) -> None:
    for name in ("migrate", "daemon"):
        environment = services[name]["environment"]
        assert environment["POOLSQL_DATABASE_URL"] == "postgresql://poolsql@postgres:5432/poolsql"
        assert environment["PGPASSWORD"] == "${POSTGRES_PASSWORD:-}"
    assert services["postgres"]["environment"]["POSTGRES_PASSWORD"] == "${POSTGRES_PASSWORD:-}"


def test_images_are_versions_and_can_be_replaced(services: dict[str, Any], dockerfile: list[tuple[str, str]]) -> None:
    assert services["postgres"]["image"] == "${POSTGRES_IMAGE:-postgres:18}"
    base = services["daemon"]["build"]["args"]["BASE"].removeprefix("${PYTHON_IMAGE:-").removesuffix("}")
    assert ("ARG", f"BASE={base}") in dockerfile
    for image in (base, services["daemon"]["image"]):
        assert re.search(r":[^/]+$", image)
        assert "latest" not in image
    froms = [rest for name, rest in dockerfile if name == "FROM"]
    assert {rest.split()[0] for rest in froms} == {"${BASE}"}


def test_the_database_is_kept_and_reached_by_nobody_else(services: dict[str, Any]) -> None:
    postgres = services["postgres"]
    assert postgres["volumes"] == ["database:/var/lib/postgresql"]
    assert postgres["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert "--host=127.0.0.1" in postgres["healthcheck"]["test"]
    assert not [name for name, service in services.items() if "ports" in service or "network_mode" in service]


def test_the_daemon_waits_for_database_and_tables(services: dict[str, Any]) -> None:
    assert services["migrate"]["command"][:2] == ["db", "upgrade"]
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert services["migrate"]["restart"] == "no"
    assert services["daemon"]["depends_on"] == {
        "postgres": {"condition": "service_healthy"},
        "migrate": {"condition": "service_completed_successfully"},
    }


def test_the_daemon_has_time_to_close_browsers(services: dict[str, Any], dockerfile: list[tuple[str, str]]) -> None:
    daemon = services["daemon"]
    assert daemon["stop_signal"] == last(dockerfile, "STOPSIGNAL") == "SIGTERM"
    # 20 s for tasks, then each browser 10 s to close and what a kill takes.
    assert parse_duration(daemon["stop_grace_period"], name="grace").total_seconds() >= 45
    assert daemon["restart"] == "unless-stopped"


def test_the_machines_name_and_its_profiles_outlive_the_container(
    services: dict[str, Any], dockerfile: list[tuple[str, str]]
) -> None:
    daemon = services["daemon"]
    assert daemon["hostname"] == daemon["environment"]["POOLSQL_MACHINE"] == "${POOLSQL_MACHINE:-poolsql}"
    place = re.search(r"POOLSQL_DATA_DIR=(\S+)", last(dockerfile, "ENV"))
    assert place is not None
    assert f"profiles:{place[1]}" in daemon["volumes"]
    assert last(dockerfile, "VOLUME") == place[1]
    (fleet,) = [volume for volume in daemon["volumes"] if isinstance(volume, dict)]
    assert fleet["read_only"] is True
    assert daemon["command"][:3] == ["daemon", "--fleet", fleet["target"]]


def test_the_daemon_has_no_rights_but_a_sandbox(services: dict[str, Any], dockerfile: list[tuple[str, str]]) -> None:
    user, group = last(dockerfile, "USER").split(":")
    assert int(user) > 1000
    assert int(group) > 1000
    for name in ("migrate", "daemon"):
        assert services[name]["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in services[name]["security_opt"]
        assert not {"privileged", "cap_add", "user", "pid"} & services[name].keys()
    assert f"seccomp:./{SECCOMP.relative_to(ROOT)}" in services["daemon"]["security_opt"]
    profile = json.loads(SECCOMP.read_text(encoding="utf-8"))
    (refused,) = profile["syscalls"]
    assert refused["action"] == "SCMP_ACT_ERRNO"
    assert {"mount", "umount2", "setns", "bpf", "init_module", "kexec_load", "keyctl"} <= set(refused["names"])
    assert not {"clone", "clone3", "unshare", "chroot", "ptrace", "seccomp", "prctl"} & set(refused["names"])
    assert len(refused["names"]) == len(set(refused["names"]))


def test_orphans_are_reaped_and_health_is_asked(dockerfile: list[tuple[str, str]]) -> None:
    assert json.loads(last(dockerfile, "ENTRYPOINT")) == ["/usr/bin/tini", "--", "python", "scheduler.py"]
    assert json.loads(last(dockerfile, "CMD")) == ["daemon"]
    assert json.loads(last(dockerfile, "HEALTHCHECK").partition(" CMD ")[2]) == [
        "python",
        "scheduler.py",
        "healthcheck",
    ]


def test_the_image_holds_the_pins_and_nothing_local(dockerfile: list[tuple[str, str]]) -> None:
    assert any("pip install --no-deps -r requirements.lock" in rest for name, rest in dockerfile if name == "RUN")
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*"
    copied = [
        word.removeprefix("./")
        for name, rest in dockerfile
        if name == "COPY" and "--from" not in rest
        for word in rest.split()[:-1]
    ]
    assert sorted(copied) == sorted(rule[1:] for rule in rules if rule.startswith("!"))
    assert all((ROOT / name).exists() for name in copied)


@pytest.mark.parametrize("name", ["migrate", "daemon"])
def test_what_the_containers_run_is_known_to_the_program(name: str, services: dict[str, Any]) -> None:
    done = run(sys.executable, "scheduler.py", *_command_and_options(services[name]["command"]), "--help")
    assert done.returncode == 0, done.stderr
    for option in (word for word in services[name]["command"] if word.startswith("--")):
        assert option in done.stdout


def _command_and_options(command: list[str]) -> list[str]:
    first = next((index for index, word in enumerate(command) if word.startswith("--")), len(command))
    return command[:first]


def test_the_service_stops_the_daemon_and_not_its_browsers() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # names have capitals
    unit.read(SERVICE, encoding="utf-8")
    service = unit["Service"]
    assert (service["KillMode"], service["KillSignal"]) == ("mixed", "SIGTERM")
    assert int(service["TimeoutStopSec"]) >= 60
    assert (service["User"], service["NoNewPrivileges"], service["Restart"]) == ("poolsql", "yes", "on-failure")
    # With these Chromium would have no sandbox, or would not run.
    assert not {"RestrictNamespaces", "MemoryDenyWriteExecute", "SystemCallFilter"} & service.keys()


def test_systemd_accepts_the_service(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    unit = tmp_path / "poolsql.service"
    unit.write_text(
        SERVICE.read_text(encoding="utf-8").replace("/opt/poolsql/.venv/bin/python", sys.executable), encoding="utf-8"
    )
    done = run("systemd-analyze", "verify", "--man=no", str(unit))
    said = [line for line in done.stderr.splitlines() if "poolsql.service" in line]
    assert (done.returncode, said) == (0, [])
