from __future__ import annotations

from pathlib import Path

import pytest

from poolsql.errors import BadInputError
from poolsql.targets import MAX_URL_LENGTH, host_name, origin, parse_target, read_url_file


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://shop.example/p/1", "shop.example"),
        ("HTTPS://Shop.EXAMPLE", "shop.example"),
        ("https://shop.example:443/", "shop.example"),
        ("http://shop.example:80", "shop.example"),
        ("http://shop.example:443/", "shop.example:443"),
        ("https://shop.example:/", "shop.example"),
        ("https://shop.example.:8443/", "shop.example:8443"),
        ("https://bücher.example/ü?q=ß", "xn--bcher-kva.example"),
        ("https://BÜCHER.example/", "xn--bcher-kva.example"),
        ("https://faß.example/", "xn--fa-hia.example"),
        ("https://under_score.example/", "under_score.example"),
        ("http://127.0.0.1:8080/", "127.0.0.1:8080"),
        ("http://127.1/", "127.0.0.1"),
        ("http://0x7f000001/", "127.0.0.1"),
        ("http://2130706433/", "127.0.0.1"),
        ("http://[::1]:8080/", "[::1]:8080"),
        ("http://[2001:DB8:0::1]/", "[2001:db8::1]"),
        ("http://user:secret@shop.example/", "shop.example"),
        ("  https://shop.example/ \n", "shop.example"),
    ],
)
def test_one_site_has_one_host_however_it_is_spelled(url: str, host: str) -> None:
    assert parse_target(url).host == host


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://shop.example", "https://shop.example/"),
        ("https://shop.example?q=1", "https://shop.example/?q=1"),
        ("http://user:secret@Shop.example:80/p?a=b@c#top", "http://shop.example/p?a=b@c#top"),
        ("http://token@shop.example:81/@me", "http://shop.example:81/@me"),
        ("https://shop.example/ü/%C3%BC?x=\\", "https://shop.example/ü/%C3%BC?x=\\"),
    ],
)
def test_address_loses_its_credentials_and_keeps_the_rest(url: str, clean: str) -> None:
    target = parse_target(url)
    assert target.url == clean
    assert parse_target(target.url) == target


def test_origin_is_scheme_and_host() -> None:
    assert origin("https://u@Shop.example:443/p?q") == "https://shop.example"
    assert origin("http://shop.example:8080/p") == "http://shop.example:8080"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "empty"),
        ("shop.example/p", "not an http"),
        ("shop.example:80/p", "not an http"),
        ("ftp://shop.example/", "not an http"),
        ("file:///etc/passwd", "not an http"),
        ("javascript:alert(1)", "not an http"),
        ("http:///p", "names no host"),
        ("http://:80/", "names no host"),
        ("https://shop.example:99999/", "not an address"),
        ("https://shop.example:x/", "not an address"),
        ("https://shop.example:0/", "port 0"),
        ("https://shop.example/a b", "blank or control"),
        ("https://shop.example/a\tb", "blank or control"),
        ("https://shop.example/a\0b", "blank or control"),
        ("https://good.example\\@evil.example/", "backslash"),
        ("https://shop.example/\ud800", "surrogate"),
        ("https://shop..example/", "no host name"),
        ("https://shop%2eexample/", "no host name"),
        ("https://a<b.example/", "no host name"),
        ("https://" + "a" * 300 + ".example/", "no host name"),
        ("https://xn--ü.example/", "no host name"),
        ("http://1.2.3.4.5/", "no IPv4"),
        ("http://256.256.256.256/", "no IPv4"),
        ("http://[::1/", "not an address"),
        ("http://[fe80::1%25eth0]/", "zone|no IPv6"),
        ("http://shop.example/" + "x" * MAX_URL_LENGTH, "longer than"),
    ],
)
def test_what_no_browser_could_open_is_refused(url: str, reason: str) -> None:
    with pytest.raises(BadInputError, match=reason) as caught:
        parse_target(url)
    message = str(caught.value)
    message.encode()
    assert "\n" not in message
    assert len(message) < 400


@pytest.mark.parametrize(
    "url",
    ["ftp://user:secret@shop.example/", "http://user:secret@shop.example:x/", "http://user:secret@shop.example/ x"],
)
def test_errors_hold_no_credentials(url: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_target(url)
    assert "secret" not in str(caught.value)


def test_file_of_addresses(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(
        b"\xef\xbb\xbf# pages\r\n\r\nhttps://a.example/1#top\r\n  https://b.example/  # with a note\r\n https://a.example/1#top"
    )
    assert [target.url for target in read_url_file(path)] == [
        "https://a.example/1#top",
        "https://b.example/",
        "https://a.example/1#top",
    ]


def test_all_wrong_lines_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_text("https://a.example/\nnonsense\n\n# fine\nhttps://u:secret@b.example:x/\n")
    with pytest.raises(BadInputError, match=r"2 lines are wrong: line 2: .*nonsense.*; line 5: .*b\.example") as caught:
        read_url_file(path)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "names no address"), (b"# only\n", "names no address"), (b"http://\xff", "UTF-8")]
)
def test_files_without_addresses_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=reason):
        read_url_file(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"gone\.txt: cannot read the file \(No such file"):
        read_url_file(tmp_path / "gone.txt")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Shop.Example", "shop.example"),
        ("shop.example.", "shop.example"),
        ("shop.example:8443", "shop.example:8443"),
        ("shop.example:80", "shop.example"),
        ("shop.example:443", "shop.example"),
        ("https://shop.example:443/page?q=1", "shop.example"),
        ("http://shop.example:443", "shop.example:443"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("[::1]:8080", "[::1]:8080"),
        (" 127.1 ", "127.0.0.1"),
    ],
)
def test_a_host_as_people_write_it(text: str, host: str) -> None:
    assert host_name(text) == host


@pytest.mark.parametrize("text", ["", "shop.example/page", "shop.example?q", "shop example", "me:hunter2@shop.example"])
def test_what_is_no_host(text: str) -> None:
    with pytest.raises(BadInputError) as refused:
        host_name(text)
    assert "hunter2" not in str(refused.value)
