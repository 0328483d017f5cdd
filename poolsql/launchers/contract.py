"""What a launcher must promise, whichever product stands behind it.

A launcher starts and stops the browser of one profile. Everything that is needed to stop a browser is in its
`BrowserHandle`, which the database keeps with the lease: any process that can reach the launcher can finish what a
dead worker began. The handle is written *before* the browser is started, since an answer can be lost while the
browser comes up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Protocol


class StopRung(StrEnum):
    """The step of the stop ladder that ended the browser's main process, and so whether it could save its state.

    Helpers that outlived it were killed afterwards; `KILLED` also stands for a browser of which only helpers were left.
    """

    NOT_RUNNING = "not_running"
    CLOSED = "browser_close"
    INTERRUPTED = "sigint"
    KILLED = "sigkill"
    VENDOR = "vendor_stop"
    """The product that runs the browser was told to stop it, and the browser's address is gone."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """The exit of a profile. `server` holds no credentials; the password is resolved only when it is needed."""

    name: str
    server: str
    username: str | None = None
    secret: str | None = None
    """Reference of the password (``env:NAME`` or ``file:/path``)."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What a launcher is told about the browser it should start."""

    lease_id: int
    profile_id: int
    profile_key: str
    """The launcher's own name of the profile."""
    proxy: Proxy | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the profile joined with those of this start, such as ``headless``; they win over the launcher's."""
    still_wanted: Callable[[], object] = field(default=lambda: None, compare=False, repr=False)
    """Raises when nothing may be started any more, because the lease was lost; asked before each try of a start."""


@dataclass(frozen=True, slots=True)
class BrowserHandle:
    """How to find, reach and stop one browser; survives the process that started it (a jsonb column)."""

    launcher: str
    """Name of the launcher's row."""
    machine: str
    profile_key: str
    directory: str | None = None
    pid: int | None = None
    process_started: str | None = None
    """Start mark of `pid`, so that a reused process id is never taken for the browser."""
    cdp_url: str | None = None
    variables: Mapping[str, Any] | None = None
    """What the launcher fills into its requests about this browser, besides the profile's key; never a secret."""
    reclaiming_for: float | None = None
    """For how many seconds its lease has been reclaiming, by the database's clock: no start of it was recorded since.

    Only the reaper knows; None for everybody else.
    """

    def started(self, *, cdp_url: str, pid: int | None = None, process_started: str | None = None) -> BrowserHandle:
        """The same browser, once its address is known, and its process where the launcher sees it."""
        return replace(self, pid=pid, process_started=process_started, cdp_url=cdp_url)

    def to_json(self) -> dict[str, Any]:
        """As the database keeps it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BrowserHandle:
        """From what the database kept; keys of a newer version are ignored."""
        known: dict[str, Any] = {name: data.get(name) for name in cls.__dataclass_fields__}
        return cls(**known)


@dataclass(frozen=True, slots=True)
class StopReport:
    """How a browser was stopped. A report is only made when the browser is *proven* gone."""

    rung: StopRung
    seconds: float


class Launcher(Protocol):
    """Starts and stops browsers of one kind. Each method ends by its deadline, whatever the browser does."""

    kind: ClassVar[str]
    pins_machine: ClassVar[bool]
    """True when a profile lives on the machine where it was first started."""

    @property
    def stops_here_only(self) -> bool:
        """Whether only the machine that started a browser can stop it and prove that."""
        ...

    @property
    def start_seconds(self) -> float | None:
        """How long a start may take; None for the usual time."""
        ...

    def check_options(self, options: Mapping[str, Any], *, of_start: bool = False) -> None:
        """Make sure that a profile, or one start, can have these options.

        Args:
            of_start: They are of one start, which cannot have what makes a profile the one that it is.

        Raises:
            BadInputError: It cannot; the message names everything that is wrong.
        """
        ...

    def prepare(self, request: LaunchRequest) -> BrowserHandle:
        """Check everything that can be checked without starting anything and say how to stop what would start.

        Raises:
            LaunchFailedError: The browser could not start.
        """
        ...

    def start(self, request: LaunchRequest, handle: BrowserHandle, *, timeout: float) -> BrowserHandle:
        """Start the browser and return its handle with a reachable ``cdp_url``.

        On any failure nothing of what was started is left running, or the error says that it may be.

        Raises:
            LaunchFailedError: The browser did not start within `timeout` seconds.
        """
        ...

    def stop(self, handle: BrowserHandle, *, timeout: float) -> StopReport:
        """Stop the browser, gently first, and prove that it is gone. Stopping a stopped browser is no error.

        Raises:
            StopNotProvenError: The browser may still run after `timeout` seconds.
        """
        ...

    def is_running(self, handle: BrowserHandle) -> bool:
        """Whether the browser may run.

        Raises:
            LauncherError: It cannot be told, for example from another machine.
        """
        ...
