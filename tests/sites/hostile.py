"""Pages that try to break whoever loads them, served on 127.0.0.1 for the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import quote

from poolsql.demo.local_server import Request, RequestRecord, Response
from poolsql.demo.pages import message_page, page_html
from tests.sites.served import ServedSite

MEGABYTE = 1_000_000
SESSION_COOKIE = "session"

_NO_ROBOTS = Response(b"", status=404)


class HostileSite(ServedSite):
    """The hostile pages while it is entered; `robots` can be replaced at any time.

    Pages: ``/`` is ordinary. ``/nul`` and ``/surrogate`` have such text in `h1` and title; ``/huge?megabytes=50`` is
    streamed; ``/dialogs`` opens alert, confirm and prompt, and another alert after each; ``/unload-dialog`` objects to
    being left; ``/no-heading`` has no h1; ``/crashable`` is ordinary but on record as the one to crash; ``/frozen``
    stops answering to scripts once loaded; ``/closes-itself`` closes its window; ``/reloads`` loads itself anew all
    the time; ``/popups`` opens windows; ``/impostor`` has form fields and scripts in the place of what a document has;
    ``/status/<code>?retry_after=…&empty=1``; ``/redirect/<hops>``;
    ``/redirect-loop``; ``/redirect-to?url=…``; ``/login`` and ``/account`` that needs it; ``/hang-up`` gives no
    answer, ``/cut-short`` half of one, ``/drip?seconds=…`` one byte at a time; ``/slow?seconds=…``; ``/download``;
    ``/with-widget`` is an ordinary page that embeds a captcha widget in a form.
    """

    def __init__(self) -> None:
        self.robots: Callable[[Request], Response] | Response = _NO_ROBOTS
        super().__init__()

    @property
    def origin(self) -> str:
        return f"http://{self._server.host}"

    @property
    def requests(self) -> tuple[RequestRecord, ...]:
        return self._log.snapshot()

    def at(self, path: str) -> str:
        return f"{self.origin}{path}"

    def _respond(self, request: Request) -> Response:  # noqa: PLR0911  # one return a page
        match request.path.split("/")[1:]:
            case ["robots.txt"]:
                return self.robots(request) if callable(self.robots) else self.robots
            case ["status", code]:
                return _status(int(code), request)
            case ["redirect", hops]:
                return _redirect(f"/redirect/{int(hops) - 1}") if int(hops) > 0 else _page("Arrived", "Here.")
            case ["redirect-loop"]:
                return _redirect("/redirect-loop")
            case ["redirect-to"]:
                return _redirect(request.query["url"])
            case ["huge"]:
                return _huge(int(request.query.get("megabytes", "50")))
            case ["slow"]:
                return Response(_html("Slow", "Late."), delay=float(request.query.get("seconds", "5")))
            case ["drip"]:
                return Response(self._drip(float(request.query.get("seconds", "1"))), content_type="text/plain")
            case ["login"]:
                return _login(request)
            case ["account"]:
                return _account(request)
            case [name] if name in _PAGES:
                return _PAGES[name]
            case _:
                return Response(_html("Not found", "No such page."), status=404)

    def _drip(self, seconds: float) -> Iterator[bytes]:
        while not self._over.wait(seconds):
            yield b"."


def _page(heading: str, text: str) -> Response:
    return Response(_html(heading, text))


def _html(heading: str, text: str) -> bytes:
    return message_page(heading, text).encode()


def _scripted(script: str) -> Response:
    return Response(page_html("Hostile", f"<h1>Hostile</h1><script>{script}</script>").encode())


def _status(code: int, request: Request) -> Response:
    headers = []
    if "retry_after" in request.query:
        headers.append(("Retry-After", request.query["retry_after"]))
    if code == 401:
        headers.append(("WWW-Authenticate", 'Basic realm="hostile"'))
    body = b"" if "empty" in request.query else _html(f"Status {code}", "As asked.")
    return Response(body, status=code, headers=tuple(headers))


def _redirect(location: str) -> Response:
    return Response(b"", status=302, headers=(("Location", location),))


def _huge(megabytes: int) -> Response:
    head = b"<!doctype html><title>Huge</title><h1>Huge</h1>"
    paragraph = (b"<p>" + b"x" * 993 + b"</p>") * 1000
    assert len(paragraph) == MEGABYTE

    def pieces() -> Iterator[bytes]:
        yield head
        for _ in range(megabytes):
            yield paragraph

    return Response(pieces(), headers=(("Content-Length", str(len(head) + megabytes * MEGABYTE)),))


def _login(request: Request) -> Response:
    if request.method == "POST":
        return Response(
            b"",
            status=303,
            headers=(("Set-Cookie", f"{SESSION_COOKIE}=open; Path=/; Max-Age=3600"), ("Location", "/account")),
        )
    form = (
        '<h1>Log in</h1><form id="login" method="post"><input name="user" aria-label="User">'
        '<input name="password" type="password" aria-label="Password"><button>Log in</button></form>'
    )
    return Response(page_html("Log in", form).encode())


def _account(request: Request) -> Response:
    if request.cookies.get(SESSION_COOKIE) != "open":
        return _redirect(f"/login?next={quote('/account')}")
    return _page("Your account", "You are logged in.")


_PAGES = {
    "": _page("Ordinary", "Nothing is wrong here."),
    "crashable": _page("Crashable", "The test crashes this one."),
    "no-heading": Response(page_html("No heading", "<p>A page without a heading.</p>").encode()),
    # HTML itself cannot carry these characters to a script; scripts can make them.
    "nul": _scripted(r"document.title = document.querySelector('h1').textContent = 'a\u0000b'"),
    "surrogate": _scripted(r"document.title = document.querySelector('h1').textContent = 'a\ud800b'"),
    "dialogs": _scripted("alert('one'); confirm('two'); prompt('three'); setInterval(() => alert('again'), 50)"),
    "unload-dialog": _scripted("addEventListener('beforeunload', event => event.preventDefault())"),
    "frozen": _scripted("addEventListener('load', () => setTimeout(() => { for (;;); }, 50))"),
    "closes-itself": _scripted("setTimeout(() => window.close(), 300)"),
    "reloads": _scripted("setInterval(() => location.reload(), 20)"),
    "popups": _scripted("for (let i = 0; i < 5; i++) window.open('/'); setInterval(() => window.open('/'), 100)"),
    "impostor": Response(
        page_html(
            "Impostor",
            '<form name="title"></form><form name="body"></form><form name="documentElement"></form><h1>Impostor</h1>'
            "<script>Object.defineProperty(window, 'JSON', { get() { throw 'no' } })</script>",
        ).encode()
    ),
    "hang-up": Response(hang_up=True),
    "cut-short": Response((b"<h1>Half",), headers=(("Content-Length", "5000"),)),
    "download": Response(b"PK", content_type="application/octet-stream"),
    "with-widget": Response(
        page_html(
            "Contact",
            "<h1>Contact</h1><p>" + "An ordinary page with much to read. " * 100 + "</p>"
            '<form><div class="g-recaptcha">widget</div><button>Send</button></form>',
        ).encode()
    ),
}
