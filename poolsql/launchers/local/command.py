"""The command line and the environment of a browser, from a profile's options."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from poolsql.errors import BadInputError, LaunchFailedError, LaunchFault
from poolsql.launchers.contract import Proxy
from poolsql.launchers.local.browser_processes import DIRECTORY_FLAG, MARK_VARIABLE

_OWNED_FLAGS = {
    "user-data-dir": "the profile's directory is poolsql's",
    "profile-directory": "the profile's directory is poolsql's",
    "remote-debugging-port": "poolsql chooses the port",
    "remote-debugging-address": "only this machine may drive the browser",
    "remote-debugging-pipe": "the browser is driven through a port",
    "remote-allow-origins": "no web page may drive the browser",
    "headless": "use the option headless",
    "no-sandbox": "use the option sandbox",
    "host-resolver-rules": "use the option resolver_rules",
    "proxy-server": "use the profile's proxy",
    "proxy-pac-url": "use the profile's proxy",
    "proxy-auto-detect": "use the profile's proxy",
    "proxy-bypass-list": "it would send requests past the profile's proxy",
    "no-proxy-server": "it would send requests past the profile's proxy",
    "incognito": "the browser would forget the profile",
    "guest": "the browser would forget the profile",
    "type": "it starts a part of a browser",
}
_QUIET = (
    "--no-first-run",
    "--no-default-browser-check",
    "--no-service-autorun",
    "--hide-crash-restore-bubble",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    # A crash report holds memory of pages, and so their cookies. (--disable-crashpad-for-testing would keep the
    # handlers away altogether, but then Chromium 156 restarts its network service for ever.)
    "--disable-breakpad",
    # Cookies are encrypted with a key from the desktop's keyring if there is one: a profile that is started from a
    # desktop once and from a service the next time would lose its logins.
    "--password-store=basic",
    "--use-mock-keychain",
)
_PROXY_SCHEMES = frozenset({"http", "https", "socks4", "socks5"})
_SMALL_SHARED_MEMORY = 256 * 1024 * 1024
"""Bytes; Docker gives 64 MiB by default, with which Chromium's tabs crash."""

# What a browser needs of the worker's environment. All else stays behind: a database address or any variable that a
# secret reference (env:NAME) names would be readable for each extension and for the crash handler.
_PASSED = """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR TMP TEMP DISPLAY XAUTHORITY WAYLAND_DISPLAY
    DBUS_SESSION_BUS_ADDRESS LD_LIBRARY_PATH SSL_CERT_FILE SSL_CERT_DIR
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
    SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES PROGRAMFILES(X86)
    USERPROFILE USERNAME HOMEDRIVE HOMEPATH NUMBER_OF_PROCESSORS PROCESSOR_ARCHITECTURE __CF_USER_TEXT_ENCODING
    """.split()  # noqa: SIM905 - forty quoted names are harder to read
_PASSED_PREFIXES = ("LC_", "XDG_", "FONTCONFIG_", "LIBGL_", "MESA_", "VK_", "LIBVA_", "PULSE_")
_PRIVATE_PREFIXES = ("POOLSQL_", "PG", "DATABASE_URL")


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """What `options` of a `local` launcher, or of one of its profiles, may say."""

    headless: bool = True
    """False shows the browser's windows, on a display of its own (see `xvfb`) where the machine has none."""
    xvfb: str | None = None
    """Path or command of Xvfb, which gives a browser with windows a display; by default the one on PATH."""
    sandbox: bool | None = None
    """Whether pages are kept in Chromium's sandbox; by default yes, except for root, for whom there is none."""
    args: tuple[str, ...] = ()
    """Further flags of Chromium, each with its dashes."""
    resolver_rules: str | None = None
    """Chromium's ``--host-resolver-rules``, such as ``MAP * ~NOTFOUND, EXCLUDE 127.0.0.1``: no name is looked up."""
    environment: tuple[str, ...] = ()
    """Names of further environment variables that the browser gets from the worker."""
    directory: Path | None = None
    """Of a profile only: the user data directory that it has already, in full; by default one of poolsql's own."""


def read_options(options: Mapping[str, Any], *, of_profile: bool = False) -> LocalOptions:
    """Check options as `fleet.toml` gives them.

    Args:
        of_profile: They are a profile's own, or contain these: only a profile can have a ``directory``.

    Raises:
        BadInputError: The message names everything that is wrong.
    """
    known = [field.name for field in fields(LocalOptions) if of_profile or field.name != "directory"]
    if "directory" in options and not of_profile:
        problems = ["directory: belongs to one profile; two browsers on a directory would destroy it"]
        options = {name: value for name, value in options.items() if name != "directory"}
    else:
        problems = []
    problems += [f"{name}: unknown (known: {', '.join(known)})" for name in options if name not in known]
    headless, sandbox, rules = (options.get("headless", True), options.get("sandbox"), options.get("resolver_rules"))
    xvfb = options.get("xvfb")
    if not isinstance(headless, bool):
        problems.append("headless: must be true or false")
    if not isinstance(sandbox, bool | None):
        problems.append("sandbox: must be true or false")
    if not isinstance(rules, str | None):
        problems.append("resolver_rules: must be text")
    if not (xvfb is None or (isinstance(xvfb, str) and xvfb.strip())):
        problems.append("xvfb: must be the path of a program")
    directory = options.get("directory")
    if not (directory is None or _is_full_path(directory)):
        problems.append("directory: must be the full path of a directory, without '..'")
    args = _texts("args", options, problems)
    for flag in args:
        problem = _flag_problem(flag)
        if problem is not None:
            problems.append(f"args: {flag}: {problem}")
    environment = _texts("environment", options, problems)
    problems += [
        f"environment: {name}: not allowed, it can hold the database's password"
        for name in environment
        if name.upper().startswith(_PRIVATE_PREFIXES)
    ]
    if problems:
        raise BadInputError("options of a local launcher: " + "; ".join(problems))
    return LocalOptions(
        headless=headless,
        xvfb=xvfb,
        sandbox=sandbox,
        args=args,
        resolver_rules=rules,
        environment=environment,
        directory=Path(directory) if directory is not None else None,
    )


def _is_full_path(value: object) -> bool:
    # It would depend on where a worker was started, or on its data directory, which two machines need not share.
    if not isinstance(value, str) or "\0" in value:
        return False
    path = Path(value)
    return path.is_absolute() and ".." not in path.parts and bool(path.name)


def _texts(name: str, options: Mapping[str, Any], problems: list[str]) -> tuple[str, ...]:
    value = options.get(name, ())
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) and text for text in value):
        problems.append(f"{name}: must be a list of texts")
        return ()
    return tuple(value)


def _flag_problem(flag: str) -> str | None:
    # Chromium reads flags with one dash, too, and in any case on Windows.
    name = flag.lstrip("-").partition("=")[0].strip().lower()
    if not flag.startswith("--") or not name:
        # An address as an argument would be a page load past pacing and robots.txt.
        return "must be a flag that starts with --"
    return f"not allowed, {_OWNED_FLAGS[name]}" if name in _OWNED_FLAGS else None


def browser_command(executable: Path, directory: Path, options: LocalOptions, proxy: Proxy | None) -> list[str]:
    """The command line that starts the browser.

    Raises:
        LaunchFailedError: The proxy cannot be given to Chromium safely.
    """
    sandbox = options.sandbox if options.sandbox is not None else not _is_root()
    optional = {
        "--headless=new": options.headless,
        "--no-sandbox": not sandbox,
        "--disable-dev-shm-usage": _has_small_shared_memory(),
        f"--host-resolver-rules={options.resolver_rules}": options.resolver_rules is not None,
    }
    return [
        str(executable),
        f"{DIRECTORY_FLAG}{directory}",
        "--remote-debugging-port=0",
        "--remote-debugging-address=127.0.0.1",
        *_QUIET,
        *(flag for flag, wanted in optional.items() if wanted),
        *([] if proxy is None else [f"--proxy-server={_proxy_server(proxy)}"]),
        *options.args,
        "about:blank",  # the page for new tabs would load from the network
    ]


def browser_environment(directory: Path, options: LocalOptions) -> dict[str, str]:
    """The environment that the browser is started with: what it needs, what was asked for, and its mark."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or name.startswith(_PASSED_PREFIXES) or name in options.environment
    }
    return {**passed, MARK_VARIABLE: str(directory)}


def _proxy_server(proxy: Proxy) -> str:
    place = f"proxy {proxy.name}"
    address = proxy.server if "://" in proxy.server else f"http://{proxy.server}"
    try:
        parts = urlsplit(address)
        credentials, complete = "@" in parts.netloc, bool(parts.hostname and parts.port)
    except ValueError:
        parts, credentials, complete = urlsplit(""), "@" in address, False
    if proxy.username or proxy.secret or credentials:
        raise LaunchFailedError(
            f"{place}: needs a login, which a local browser can only be given on its command line, where every user "
            "of the machine reads it; let the proxy accept this machine's address, or use a launcher whose browser "
            "keeps the login",
            fault=LaunchFault.PROFILE,
        )
    if parts.scheme not in _PROXY_SCHEMES or not complete:
        raise LaunchFailedError(
            f"{place}: a local browser needs its server as scheme://host:port with one of the schemes "
            f"{', '.join(sorted(_PROXY_SCHEMES))}",
            fault=LaunchFault.PROFILE,
        )
    return f"{parts.scheme}://{parts.netloc}"


def _is_root() -> bool:
    return sys.platform != "win32" and os.geteuid() == 0


def _has_small_shared_memory() -> bool:
    try:
        return shutil.disk_usage("/dev/shm").free < _SMALL_SHARED_MEMORY  # noqa: S108 - asked about, not written to
    except OSError:
        return False
