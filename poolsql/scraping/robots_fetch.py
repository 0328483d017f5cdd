"""Fetching a site's robots.txt: honest about who asks, limited in size and in time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urljoin

import requests

from poolsql.deadlines import Deadline, finish_within
from poolsql.retry_after import parse_retry_after
from poolsql.scraping.robots import MAX_ROBOTS_BYTES, RobotsRules, decode_robots
from poolsql.targets import parse_target
from poolsql.text import clean_text
from poolsql.version import package_version

MAX_REDIRECTS = 5
"""RFC 9309: follow at least five, also to other hosts."""

_PIECE = 1024


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """What came back from asking for a robots.txt."""

    status: int | None
    """The last status after redirects; None when no complete answer came."""
    text: str = ""
    """The file, of a 2xx only; storable, and whole lines of at most 500 KiB."""
    detail: str = ""
    """One line: the final address of an answer, or why none came."""
    retry_after: timedelta | None = None
    """What a 429 or 503 asked for."""

    def rules(self, *, agent: str) -> RobotsRules:
        """What the answer allows to the robot `agent`."""
        return RobotsRules.of_answer(self.status, self.text, agent=agent)


def user_agent(agent: str) -> str:
    """The User-Agent with which robots.txt is fetched: product token and version, and what is asked for."""
    return f"{agent}/{package_version()} (+robots)"


def fetch_robots(origin: str, *, agent: str, timeout: timedelta) -> RobotsAnswer:
    """Ask an origin for its robots.txt; never raises for what the site or the network does.

    Args:
        origin: ``https://shop.example``, as `targets.Target.origin` has it.
        agent: Our product token.
        timeout: For everything together: look-up, redirects, all of the body. A site that sends one byte a second
            does not hold the caller longer.

    Raises:
        BadInputError: `origin` is no http or https address.
    """
    address = f"{parse_target(origin).origin}/robots.txt"
    deadline = Deadline(timeout.total_seconds())
    try:
        return finish_within(lambda: _fetch(address, user_agent(agent), deadline), deadline, name="robots-fetch")
    except TimeoutError:
        return RobotsAnswer(None, detail=f"{address}: no complete answer within {deadline.seconds:g} s")


def _fetch(address: str, user_agent_text: str, deadline: Deadline) -> RobotsAnswer:
    with requests.Session() as session:
        # Nothing from the environment: a system-wide proxy is no way to the site that the profiles use, and a .netrc
        # would send somebody's password.
        session.trust_env = False
        session.headers.update({"User-Agent": user_agent_text, "Accept": "text/plain, */*;q=0.5"})
        try:
            return _follow(session, address, deadline)
        # requests looks at the Location header too and lets ValueError out for some that are none.
        except (requests.RequestException, OSError, ValueError) as error:
            return RobotsAnswer(None, detail=f"{address}: {clean_text(_cause(error), limit=300)}")


def _follow(session: requests.Session, address: str, deadline: Deadline) -> RobotsAnswer:
    for _ in range(MAX_REDIRECTS + 1):
        left = deadline.left()
        if not left:
            raise requests.Timeout("the time is over")
        with session.get(address, stream=True, allow_redirects=False, timeout=left) as response:
            if not response.is_redirect:
                return _answer(response, address, deadline)
            status = response.status_code
            next_address = _redirected(address, response.headers["Location"])
        if next_address is None:
            return RobotsAnswer(None, detail=f"{address}: redirects to no http or https address")
        address = next_address
    return RobotsAnswer(status, detail=f"{address}: more than {MAX_REDIRECTS} redirects")


def _cause(error: Exception) -> str:
    # requests wraps what happened in "Max retries exceeded …", though nothing is tried twice here.
    return str(getattr(error.args[0], "reason", error) if error.args else error)


def _redirected(address: str, location: str) -> str | None:
    try:
        # requests hands header bytes over as Latin-1, while sites send UTF-8.
        return parse_target(urljoin(address, location.encode("latin-1").decode())).url
    except ValueError:  # BadInputError is one too; urljoin and the encodings raise the plain kind
        return None


def _answer(response: requests.Response, address: str, deadline: Deadline) -> RobotsAnswer:
    status = response.status_code
    if not 200 <= status < 300:
        wait = None
        if status in {429, 503}:
            wait = parse_retry_after(response.headers.get("Retry-After"), date=response.headers.get("Date"))
        return RobotsAnswer(status, detail=address, retry_after=wait)
    body = bytearray()
    for piece in response.iter_content(_PIECE):
        body += piece
        if len(body) > MAX_ROBOTS_BYTES:
            break
        if not deadline.left():
            raise requests.Timeout("the time is over")
    return RobotsAnswer(status, decode_robots(bytes(body)), address)
