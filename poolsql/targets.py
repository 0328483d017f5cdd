"""Target addresses: checked once, without credentials, and with the same host that the browser will see.

Pacing, pauses and robots.txt go by host. Two spellings of one host would get two slots, so the host is brought to
the form that browsers use: lower case, IDNA, IPv4 in four parts.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit, urlunsplit

import idna

from poolsql.errors import BadInputError
from poolsql.lists import read_list
from poolsql.text import clean_text

MAX_URL_LENGTH = 8000
"""Characters; what common servers accept as a request line."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_BLANK_OR_CONTROL = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_USERINFO = re.compile(r"//[^/?#]*@")
_HOST_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
# Browsers read a host whose last part is a number as IPv4, in any of its old spellings (127.1, 0x7f000001).
_LAST_PART_IS_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$")


@dataclass(frozen=True, slots=True)
class Target:
    """A page to load."""

    url: str
    """The address without credentials and with a normalised host; its path, query and fragment are as given."""
    host: str
    """The site that is paced and paused: name, plus port when it is not the scheme's default."""
    origin: str
    """Scheme and host: what one robots.txt speaks for."""


def parse_target(text: str) -> Target:
    """Check an address and bring its host to the form that browsers use.

    Credentials in the address (``user:password@``) are dropped: an address is written to history and logs.

    Raises:
        BadInputError: It is no http or https address with a host; the message holds no credentials.
    """
    url = text.strip()
    _check_characters(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadInputError(f"{_shown(url)}: not an address ({_shown(str(error))})") from None
    _check_scheme(url, parts)
    name = _normalised_host(url, parts.hostname or "")
    host = name if port in (None, _DEFAULT_PORTS[parts.scheme]) else f"{name}:{port}"
    return Target(
        url=urlunsplit(parts._replace(netloc=host, path=parts.path or "/")),
        host=host,
        origin=f"{parts.scheme}://{host}",
    )


def origin(url: str) -> str:
    """Scheme and host of an address, as `Target.origin` has it.

    Raises:
        BadInputError: As `parse_target`.
    """
    return parse_target(url).origin


def host_name(text: str) -> str:
    """A host as people write it, or an address of it, in the form of `Target.host`.

    Raises:
        BadInputError: It cannot be a host.
    """
    text = text.strip()
    if "://" in text:
        return parse_target(text).host
    # The port that https leaves out is not said of a host either.
    host = parse_target(f"{'https' if text.endswith(':443') else 'http'}://{text}").host
    if text.strip("/").count("/") or "?" in text or "#" in text or "@" in text:
        raise BadInputError(
            f"{_shown(f'//{text}')} is no host; write its name, with a port where it is not the scheme's own"
        )
    return host


def read_url_file(path: Path) -> list[Target]:
    """Read a file with one address a line, as `read_list` does.

    Raises:
        BadInputError: The file cannot be read or names no address, or lines are wrong: by their numbers.
    """
    wanted = "address; write one http:// or https:// address a line"
    return read_list(path, lambda text, _: parse_target(text), wanted=wanted)


def _check_characters(url: str) -> None:
    if not url:
        raise BadInputError("the address is empty; write http:// or https:// and a host")
    if len(url) > MAX_URL_LENGTH:
        raise BadInputError(f"{_shown(url)}: longer than {MAX_URL_LENGTH:,} characters")
    if _BLANK_OR_CONTROL.search(url):
        raise BadInputError(f"{_shown(url)}: holds a blank or control character; write it as %20 or the like")
    # Browsers read a backslash before the query as a slash and would go to another host than urlsplit sees.
    if "\\" in re.split("[?#]", url, maxsplit=1)[0]:
        raise BadInputError(f"{_shown(url)}: holds a backslash; write / or %5C")
    try:
        url.encode()
    except UnicodeEncodeError:
        raise BadInputError(f"{_shown(url)}: holds half a surrogate pair") from None


def _check_scheme(url: str, parts: SplitResult) -> None:
    if parts.scheme not in _DEFAULT_PORTS:
        raise BadInputError(f"{_shown(url)}: not an http:// or https:// address")
    if not parts.hostname:
        raise BadInputError(f"{_shown(url)}: names no host")
    if parts.port == 0:
        raise BadInputError(f"{_shown(url)}: port 0 cannot be reached")


def _normalised_host(url: str, host: str) -> str:
    if ":" in host:
        return _normalised_ipv6(url, host)
    if not host.isascii():
        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            raise BadInputError(f"{_shown(url)}: {host!r} is no host name") from None
    # "example.org." is the same site as "example.org".
    host = host.lower().removesuffix(".")
    if len(host) > 253 or not _HOST_NAME.fullmatch(host):
        raise BadInputError(f"{_shown(url)}: {host[:100]!r} is no host name")
    if _LAST_PART_IS_NUMBER.search(host):
        try:
            return socket.inet_ntoa(socket.inet_aton(host))
        except OSError:
            raise BadInputError(f"{_shown(url)}: {host!r} is no IPv4 address") from None
    return host


def _normalised_ipv6(url: str, host: str) -> str:
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        raise BadInputError(f"{_shown(url)}: {host!r} is no IPv6 address") from None
    if address.scope_id is not None:
        raise BadInputError(f"{_shown(url)}: an IPv6 address with a zone cannot be opened by browsers")
    return f"[{address.compressed}]"


def bare_address(text: str) -> str:
    """What was given as an address, as it may be kept and told: without credentials, one line, storable, short."""
    bare = _USERINFO.sub("//", clean_text(text), count=1)
    one_line = " ".join(bare.split())
    return one_line if len(one_line) <= 200 else f"{one_line[:200]}…"


def _shown(url: str) -> str:
    """An address for an error message."""
    return repr(bare_address(url))
