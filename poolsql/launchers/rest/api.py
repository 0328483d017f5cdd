"""One request to a product's API, and what its answer means for whoever asked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import requests
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError

from poolsql.deadlines import Deadline, finish_within
from poolsql.errors import BadInputError, LauncherError, LaunchFault
from poolsql.launchers.rest.options import TOKEN, Action, RestOptions
from poolsql.launchers.rest.refusals import Refusal
from poolsql.launchers.rest.templates import Value
from poolsql.redaction import redact
from poolsql.retry_after import parse_retry_after
from poolsql.settings import secret_text
from poolsql.text import Json, clean_text
from poolsql.version import package_version

_LONGEST_ANSWER = 1_000_000
"""Bytes; an answer that tells an address is short."""
_PIECE = 8192
_READ_FOR_QUOTE = 2000
_QUOTED = 200
"""Characters of an answer that an error repeats."""

_HEADER_TEXT = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


class ApiError(LauncherError):
    """A request did not do what it was for.

    Attributes:
        fault: Whose fault it is.
        retry: Whether the same request may work a moment later.
        may_have_acted: Whether the API may have done it all the same, because only its answer was lost or unclear.
        in_flight: Whether the API may still be at it, because nobody waited for its answer to the end.
        retry_after: Seconds that the API asked to wait before the next request.
        status: The answer's HTTP status; None when no answer came.
        refusal: What the answer says; None when there was none, or nothing is known about it.
    """

    def __init__(
        self,
        message: str,
        *,
        fault: LaunchFault = LaunchFault.LAUNCHER,
        retry: bool = False,
        may_have_acted: bool = False,
        in_flight: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        refusal: Refusal | None = None,
    ) -> None:
        super().__init__(redact(message))
        self.fault = fault
        self.retry = retry
        self.may_have_acted = may_have_acted
        self.in_flight = in_flight
        self.retry_after = retry_after
        self.status = status
        self.refusal = refusal

    @property
    def not_running(self) -> bool:
        """Whether the answer says that the profile's browser does not run, or that there is no such profile."""
        return self.refusal in {Refusal.NOT_RUNNING, Refusal.NOT_FOUND}


@dataclass(frozen=True, slots=True)
class _Received:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def text(self) -> str:
        """The start of its body."""
        return self.body[:_READ_FOR_QUOTE].decode("utf-8", "replace")

    def quoted(self) -> str:
        """The start of its body as the end of a message, without secrets."""
        # First hidden, then cut: half a secret would not be recognised.
        text = " ".join(redact(clean_text(self.text())).split())[:_QUOTED]
        return f"; it says: {text}" if text else ""


class Api:
    """The API of a `rest` launcher. Secrets are looked up for each request and kept nowhere.

    Args:
        options: What to ask and how to read the answers.
    """

    def __init__(self, options: RestOptions) -> None:
        self._options = options

    def call(
        self, action: Action, key: str, values: Mapping[str, Value], deadline: Deadline, *, wants_json: bool = True
    ) -> Json:
        """Send one request and return the JSON of its answer.

        Nothing of the environment is used: no proxy of the system, no password of a .netrc. Redirects are not
        followed, since they would take the token elsewhere.

        Args:
            key: The profile's key, for messages.
            values: What fills the action's places.
            deadline: The request ends by it, and after the launcher's ``request_timeout``.
            wants_json: False: only the status counts, unless the success rule looks into the answer.

        Raises:
            ApiError: It did not succeed; the attributes say what to do.
        """
        url = self._options.base_url + action.path.fill(values, encode=lambda text: quote(text, safe=""))
        place = f"profile {key}: {action.method} {url}"
        if not deadline.left():
            raise ApiError(f"{place}: the time is over", retry=True)
        headers = self._headers(place, values)
        body = action.body.fill(values) if action.body is not None else None
        limit = deadline.part(1, at_most=self._options.request_timeout)
        try:
            received = finish_within(
                lambda: _send(action.method, url, headers, body, limit), limit, name=f"rest-{action.name}"
            )
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            # Not chained: the error holds the request with its headers.
            raise self._broken(place, error, limit) from None
        return self._judged(action, place, received, wants_json=wants_json)

    def _headers(self, place: str, values: Mapping[str, Value]) -> dict[str, str]:
        try:
            token = _header_text(self._options.token) if self._options.token is not None else ""
            filled = {
                header.name: header.template.fill({**values, TOKEN: token})
                if header.template is not None
                else _header_text(header.reference or "")
                for header in self._options.headers
            }
        except BadInputError as error:
            raise ApiError(f"{place}: {error}") from None
        return {"Accept": "application/json", "User-Agent": f"poolsql/{package_version()}", **filled}

    def _broken(self, place: str, error: Exception, limit: Deadline) -> ApiError:
        cause = clean_text(_cause(error), limit=_QUOTED)
        if isinstance(error, requests.exceptions.SSLError):
            return ApiError(f"{place}: no secure connection ({cause}); check the base URL and the certificate")
        if isinstance(error, ValueError):
            return ApiError(f"{place}: cannot be sent ({cause})")
        if _was_not_sent(error):
            return ApiError(
                f"{place}: no connection ({cause}); start the product that answers there, or check the base URL "
                f"{self._options.base_url}",
                retry=True,
            )
        timed_out = _timed_out(error)
        told = f"within {limit.seconds:.3g} s" if timed_out else f"({cause})"
        return ApiError(f"{place}: no complete answer {told}", retry=True, may_have_acted=True, in_flight=timed_out)

    def _judged(self, action: Action, place: str, received: _Received, *, wants_json: bool) -> Json:
        status, rule = received.status, action.success
        if not rule.status_is_good(status):
            raise self._refused(place, received)
        if not wants_json and not rule.equals:
            return None
        try:
            data: Json = json.loads(received.body)
        except (ValueError, RecursionError):
            raise ApiError(
                f"{place}: answered {status} with what is no JSON{received.quoted()}",
                retry=True,
                may_have_acted=True,
                status=status,
            ) from None
        problem = rule.problem(data)
        if problem is not None:
            raise self._refused(place, received, problem)
        return data

    def _refused(self, place: str, received: _Received, problem: str | None = None) -> ApiError:
        """The error for an answer whose status is not good, or that has a `problem` inside."""
        status, base_url = received.status, self._options.base_url
        refusal = self._options.errors.refusal(status, received.text())
        wait = parse_retry_after(received.headers.get("Retry-After"), date=received.headers.get("Date"))
        retry_after = wait.total_seconds() if wait is not None else None
        told = f"{place}: answered {status}" + (f", but {problem}" if problem is not None else "")
        if refusal is None:
            if problem is None:
                redirects = 300 <= status < 400
                remedy = f"check the base URL {base_url}" if redirects else "check the launcher's paths and bodies"
                told = f"{told}: not what the launcher expects; {remedy}"
            return ApiError(f"{told}{received.quoted()}", may_have_acted=status < 300, status=status)
        asked = f", and asks to wait {retry_after:.0f} s" if retry_after is not None else ""
        return ApiError(
            f"{told}: {refusal.explained(base_url)}{asked}{received.quoted()}",
            fault=refusal.fault,
            retry=refusal.retry,
            may_have_acted=refusal in {Refusal.FAULT, Refusal.PROXY},
            retry_after=retry_after,
            status=status,
            refusal=refusal,
        )


def _send(method: str, url: str, headers: Mapping[str, str], body: Json, limit: Deadline) -> _Received:
    with requests.Session() as session:
        session.trust_env = False
        session.headers.clear()
        with session.request(
            method,
            url,
            headers=dict(headers),
            json=body,
            timeout=max(limit.left(), 1e-3),
            allow_redirects=False,
            stream=True,
        ) as response:
            content = bytearray()
            for piece in response.iter_content(_PIECE):
                content += piece
                if len(content) > _LONGEST_ANSWER or not limit.left():
                    break
            return _Received(response.status_code, response.headers, bytes(content))


def _header_text(reference: str) -> str:
    text = secret_text(reference)
    # The HTTP library would say what is wrong with it, and repeat it.
    if not _HEADER_TEXT.fullmatch(text):
        raise BadInputError(f"secret {reference}: must be one line of plain ASCII to be sent in a header")
    return text


def _was_not_sent(error: Exception) -> bool:
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(reason, NewConnectionError | ConnectTimeoutError)


def _timed_out(error: Exception) -> bool:
    # By the limit of all steps together, or by requests' own for one of them, whichever is noticed first. While an
    # answer is read, requests calls its time-out a broken connection.
    return isinstance(error, TimeoutError | requests.Timeout) or bool(
        error.args and isinstance(error.args[0], ReadTimeoutError)
    )


def _cause(error: Exception) -> str:
    # requests wraps what happened in "Max retries exceeded …", though nothing is tried twice there.
    return str(getattr(error.args[0], "reason", error) if error.args else error)
