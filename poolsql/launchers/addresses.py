"""The address at which a browser is driven: whether it is one, and whether a browser is there."""

from __future__ import annotations

import re
import socket
from urllib.parse import SplitResult, urlsplit

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from poolsql.deadlines import Deadline
from poolsql.errors import BadInputError
from poolsql.hosts import is_loopback

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_WEBSOCKET = frozenset({"ws", "wss"})
_BLANK_OR_CONTROL = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_LONGEST = 2000
_PROBE_SECONDS = 5.0
"""For one look. Windows tries a port that refuses for two seconds before it says so."""
_GONE = frozenset({404, 410})


def checked_cdp_url(value: object) -> str:
    """The address of a browser, as an API answered it.

    Raises:
        BadInputError: It is none; the message never repeats it, since it may hold a key.
    """
    if not isinstance(value, str) or not value or len(value) > _LONGEST or _BLANK_OR_CONTROL.search(value):
        raise BadInputError("is no address")
    try:
        parts = urlsplit(value)
        complete = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        complete = False
    if not complete:
        raise BadInputError(f"is no address with a host and one of the schemes {', '.join(_PORTS)}")
    return value


def is_on_this_machine(url: str) -> bool:
    """Whether an address means the machine of whoever uses it."""
    return is_loopback(urlsplit(url).netloc.rpartition("@")[2])


def shown(cdp_url: str) -> str:
    """An address for messages: without path and query, which can hold keys."""
    parts = urlsplit(cdp_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def accepts_connections(cdp_url: str, deadline: Deadline) -> bool:
    """Whether something accepts connections at the address."""
    return _knock(urlsplit(cdp_url), deadline) is True


def is_gone(cdp_url: str, deadline: Deadline) -> bool:
    """Whether it is certain that no browser is at the address any more.

    Connections are refused; or, for a websocket, what answers there says that it knows no such browser, as another
    browser on the same port does. A time-out, an unreachable network or a name that cannot be looked up prove
    nothing. For ``http`` and ``https``, whatever accepts connections on the port counts as the browser.
    """
    parts = urlsplit(cdp_url)
    accepted = _knock(parts, deadline)
    if accepted is not True or parts.scheme not in _WEBSOCKET:
        return accepted is False
    limit = deadline.part(1, at_most=_PROBE_SECONDS)
    try:
        with connected(cdp_url, open_within=limit.left(), close_within=limit.left()):
            return False
    except InvalidStatus as error:
        return error.response.status_code in _GONE
    except (OSError, EOFError, ValueError, WebSocketException):
        # Perhaps it is just ending: the next look tells.
        return False


def connected(cdp_url: str, *, open_within: float, close_within: float) -> ClientConnection:
    """A connection to a browser's websocket, to be used as a context; both limits are seconds.

    Raises:
        OSError, EOFError, ValueError, WebSocketException: There is none.
    """
    # No proxy, whatever the environment says; and no Origin header, which Chromium refuses.
    return connect(
        cdp_url,
        proxy=None,
        origin=None,
        compression=None,
        open_timeout=open_within,
        close_timeout=close_within,
        ping_interval=None,
    )


def _knock(parts: SplitResult, deadline: Deadline) -> bool | None:
    """True: a connection was accepted. False: it was refused. None: neither."""
    limit = deadline.part(1, at_most=_PROBE_SECONDS)
    port = parts.port or _PORTS[parts.scheme]
    try:
        with socket.create_connection((parts.hostname, port), timeout=limit.left()):
            return True
    except ConnectionRefusedError:
        return False
    except (OSError, UnicodeError):
        return None
