"""Reading the options of a `rest` launcher: everything is checked that needs no network, all problems at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from poolsql.durations import parse_duration
from poolsql.errors import BadInputError
from poolsql.launchers.rest.answers import BrowserState, JsonPath, StatusRule, SuccessRule
from poolsql.launchers.rest.options import HEADLESS, ID, TOKEN, Action, Header, RestOptions, value_problem
from poolsql.launchers.rest.presets import load_preset, with_preset
from poolsql.launchers.rest.refusals import ErrorRules, Refusal
from poolsql.launchers.rest.templates import JsonTemplate, Template, Value
from poolsql.settings import is_secret_reference
from poolsql.text import did_you_mean

Read = TypeVar("Read")

_KNOWN = (
    "preset", "base_url", "token", "headers", "start", "stop", "status", "cdp_url", "errors", "headless", "variables",
    "request_timeout", "start_timeout",
)  # fmt: skip
_KNOWN_OF_ACTION = ("method", "path", "body", "success")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_REQUEST_SECONDS = 20
_START_SECONDS = 60
"""A lease lives longer than this after its last renewal, with the time-to-live that pools have by default."""
_LONGEST_SECONDS = 600

_BLANK_OR_CONTROL = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]+")
_HOLDS_A_SECRET = re.compile(r"(?i)authorization|cookie|token|key|secret|passw")
_BY_REFERENCE = "by reference, as env:NAME or file:/path, never as the value itself"


def read_options(own: Mapping[str, Any]) -> RestOptions:
    """Check options as `fleet.toml` gives them, joined with those of the preset that they name.

    Raises:
        BadInputError: The message names everything that is wrong.
    """
    reader = _Reader()
    options = reader.read(own)
    if options is None or reader.problems:
        raise BadInputError("options of a rest launcher: " + "; ".join(reader.problems))
    return options


class _Reader:
    """One reading; `problems` collects what is wrong."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read(self, own: Mapping[str, Any]) -> RestOptions | None:
        """The options; None, or some of them wrong, when there are problems."""
        self._refuse_unknown("", own, _KNOWN)
        given = self._joined(own)
        if given is None:
            return None
        base_url = self._try("base_url", lambda: _checked_base_url(given.get("base_url")))
        headers = self._headers(given.get("headers", {}))
        token = self._token(given.get(TOKEN), headers)
        start, stop = (self._action(name, given.get(name)) for name in ("start", "stop"))
        status, rule = self._status(given.get("status"))
        cdp_url = self._try("cdp_url", lambda: JsonPath.parse(_needed(given.get("cdp_url"))))
        errors = self._try("errors", lambda: _error_rules(given.get("errors", {})))
        request_seconds = self._seconds("request_timeout", given, _REQUEST_SECONDS)
        start_seconds = self._seconds("start_timeout", given, _START_SECONDS)
        actions = [action for action in (start, stop, status) if action is not None]
        variables = self._variables(given, own, actions, headers)
        if base_url is None or start is None or stop is None or cdp_url is None:
            return None
        return RestOptions(
            base_url=base_url,
            headers=headers,
            token=token,
            start=start,
            stop=stop,
            status=status,
            status_rule=rule,
            cdp_url=cdp_url,
            errors=errors or ErrorRules(),
            request_timeout=request_seconds,
            start_timeout=start_seconds,
            variables=variables,
        )

    def _joined(self, own: Mapping[str, Any]) -> Mapping[str, Any] | None:
        name = own.get("preset")
        if name is None:
            return own
        if not isinstance(name, str):
            self.problems.append("preset: must be the name of one")
            return None
        preset = self._try("preset", lambda: load_preset(name))
        return None if preset is None else with_preset(preset, own)

    def _token(self, token: object, headers: Iterable[Header]) -> str | None:
        users = [header.name for header in headers if header.template and TOKEN in header.template.names]
        # Without a colon behind the word: what stands there is hidden wherever the message is written.
        if token is None:
            if users:
                self.problems.append(f"token is missing, and header {users[0]} needs it: give it {_BY_REFERENCE}")
            return None
        # What is no reference may be the token itself, so the message never repeats it.
        if not isinstance(token, str) or not is_secret_reference(token):
            self.problems.append(f"token is given {_BY_REFERENCE}")
            return None
        if not users:
            self.problems.append('token is used by no header, write one such as Authorization = "Bearer {token}"')
        return token

    def _headers(self, given: object) -> tuple[Header, ...]:
        if not isinstance(given, Mapping):
            self.problems.append("headers: must be a table of texts")
            return ()
        headers = []
        for name, value in given.items():
            header = self._try(f"headers.{name}", partial(_header, name, value))
            if header is not None:
                headers.append(header)
        return tuple(headers)

    def _action(self, name: str, given: object, *, more: Collection[str] = ()) -> Action | None:
        if given is None:
            self.problems.append(f"{name}: missing; write at least its method and its path")
            return None
        if not isinstance(given, Mapping):
            self.problems.append(f"{name}: must be a table with method and path")
            return None
        self._refuse_unknown(f"{name}.", given, [*_KNOWN_OF_ACTION, *more])
        method = given.get("method", "POST")
        if method not in _METHODS:
            self.problems.append(f"{name}.method: must be one of {', '.join(_METHODS)}")
        path = self._try(f"{name}.path", lambda: _path(_needed(given.get("path"))))
        body = None
        if (content := given.get("body")) is not None:
            body = self._try(name, lambda: JsonTemplate.parse(content))
            if method == "GET":
                self.problems.append(f"{name}.body: a GET has none; put values into its path, as ?name={{name}}")
        success = self._try(f"{name}.success", lambda: self._success(name, given.get("success", {})))
        if path is None:
            return None
        action = Action(name, str(method), path, body, success or SuccessRule())
        if ID not in action.names:
            self.problems.append(f"{name}: neither its path nor its body names the profile, as {{{ID}}}")
        return action

    def _success(self, action: str, given: object) -> SuccessRule:
        if not isinstance(given, Mapping):
            raise BadInputError("must be a table with status or equals")
        self._refuse_unknown(f"{action}.success.", given, ("status", "equals"))
        first, last = _status_range(given.get("status", [200, 299]))
        equals = given.get("equals", {})
        if not isinstance(equals, Mapping):
            raise BadInputError('equals must be a table of paths and values, such as { "code" = 0 }')
        return SuccessRule(
            first, last, tuple((JsonPath.parse(path), _plain(wanted)) for path, wanted in equals.items())
        )

    def _status(self, given: object) -> tuple[Action | None, StatusRule | None]:
        if given is None:
            return None, None
        action = self._action("status", given, more=("value", "states"))
        if not isinstance(given, Mapping):
            return None, None
        value = self._try("status.value", lambda: JsonPath.parse(_needed(given.get("value"))))
        states = self._try("status.states", lambda: _states(given.get("states")))
        if value is None or states is None:
            return action, None
        return action, StatusRule(value, states)

    def _variables(
        self, given: Mapping[str, Any], own: Mapping[str, Any], actions: Iterable[Action], headers: Iterable[Header]
    ) -> dict[str, Value]:
        variables = given.get("variables", {})
        if not isinstance(variables, Mapping):
            self.problems.append("variables: must be a table")
            variables = {}
        for name in variables:
            if name in {ID, TOKEN, HEADLESS} or not _NAME.fullmatch(str(name)):
                self.problems.append(f"variables.{name}: cannot be the name of a variable")
        if HEADLESS in given:
            variables = {HEADLESS: given[HEADLESS], **variables}
        places = {f"{action.name}": action.names for action in actions}
        places |= {f"headers.{header.name}": header.template.names for header in headers if header.template}
        in_paths = {name for action in actions for name in action.path.names}
        used = set().union(*places.values()) if places else set()
        for place, names in places.items():
            for name in sorted(names - variables.keys() - {ID, TOKEN}):
                self.problems.append(f"{place}: {{{name}}} has no value{did_you_mean(name, [ID, *variables])}")
            if TOKEN in names and not place.startswith("headers."):
                self.problems.append(f"{place}: {{{TOKEN}}} may stand in headers only")
            if ID in names and place.startswith("headers."):
                self.problems.append(f"{place}: {{{ID}}} may stand in a path or a body only")
        for name, value in variables.items():
            place = name if name == HEADLESS else f"variables.{name}"
            if (problem := value_problem(name, value, in_path=name in in_paths)) is not None:
                self.problems.append(f"{place}: {problem}")
            # A template that cannot be read may have had the place.
            if name not in used and not self.problems and (name != HEADLESS or HEADLESS in own):
                self.problems.append(f"{place}: no path, body or header has the place {{{name}}}")
        return {name: value for name, value in variables.items() if name in used}

    def _seconds(self, name: str, given: Mapping[str, Any], default: float) -> float:
        seconds = self._try(name, lambda: parse_duration(given.get(name, default)).total_seconds())
        if seconds is not None and not 0 < seconds <= _LONGEST_SECONDS:
            self.problems.append(f"{name}: must be more than 0 and at most {_LONGEST_SECONDS} seconds")
        return seconds or default

    def _refuse_unknown(self, place: str, given: Mapping[str, Any], known: Collection[str]) -> None:
        for name in given:
            if name not in known:
                self.problems.append(f"{place}{name}: unknown{did_you_mean(name, known)} (known: {', '.join(known)})")

    def _try(self, place: str, read: Callable[[], Read]) -> Read | None:
        try:
            return read()
        except BadInputError as error:
            self.problems.append(f"{place}: {error}")
            return None


def _needed(value: object) -> object:
    if value is None:
        raise BadInputError("missing")
    return value


def _checked_base_url(value: object) -> str:
    url = _needed(value)
    if not isinstance(url, str):
        raise BadInputError("must be text")
    try:
        parts = urlsplit(url)
        complete = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise BadInputError("is no address; write http://host:port/path") from None
    # Not repeated in the message: it may hold a password.
    if "@" in parts.netloc:
        raise BadInputError(f"holds credentials; give them by token or headers, {_BY_REFERENCE}")
    if not complete or _BLANK_OR_CONTROL.search(url) or parts.query or parts.fragment:
        raise BadInputError("must have the form http://host:port/path, without a query")
    return url.rstrip("/")


def _path(value: object) -> Template:
    if not isinstance(value, str) or not value.startswith("/") or _BLANK_OR_CONTROL.search(value) or "#" in value:
        raise BadInputError("must be text that begins with a slash, without blanks, such as /profiles/{id}/start")
    return Template.parse(value)


def _header(name: object, value: object) -> Header:
    if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
        raise BadInputError("is no name of a header")
    if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
        raise BadInputError("must be a text of one line")
    if is_secret_reference(value):
        return Header(name, reference=value)
    template = Template.parse(value)
    if _HOLDS_A_SECRET.search(name) and TOKEN not in template.names:
        raise BadInputError(f"holds a secret, so it is given {_BY_REFERENCE}, or has the place {{token}}")
    return Header(name, template)


def _status_range(value: object) -> tuple[int, int]:
    match [value, value] if isinstance(value, int) else value:
        case [int(first), int(last)] if 100 <= first <= last <= 599:
            return first, last
        case _:
            raise BadInputError("status must be one HTTP status or the first and last of a range, such as [200, 299]")


def _states(value: object) -> dict[str, BrowserState]:
    known = [state.value for state in BrowserState]
    if not isinstance(value, Mapping) or not value:
        raise BadInputError('must be a table that names a state for each value, such as { "Active" = "running" }')
    wrong = [str(state) for state in value.values() if state not in known]
    if wrong:
        raise BadInputError(f"{wrong[0]!r} is no state{did_you_mean(wrong[0], known)} (known: {', '.join(known)})")
    return {str(text): BrowserState(state) for text, state in value.items()}


def _error_rules(value: object) -> ErrorRules:
    known = [refusal.value for refusal in Refusal]
    if not isinstance(value, Mapping):
        raise BadInputError('must be a table of texts that answers hold, such as { limit = "too many profiles" }')
    declared = {}
    for name, texts in value.items():
        if name not in known:
            raise BadInputError(f"{name!r} is no refusal{did_you_mean(str(name), known)} (known: {', '.join(known)})")
        pieces = [texts] if isinstance(texts, str) else texts
        if not isinstance(pieces, list) or not pieces or not all(isinstance(text, str) and text for text in pieces):
            raise BadInputError(f"{name} must be a regular expression, or a list of some")
        try:
            declared[Refusal(name)] = re.compile("|".join(f"(?:{text})" for text in pieces), re.IGNORECASE)
        except re.error as error:
            raise BadInputError(f"{name} is no regular expression: {error}") from None
    return ErrorRules(declared)


def _plain(value: object) -> str | int | float | bool | None:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise BadInputError("equals compares with texts, numbers, true and false")
