"""Problems find their places, and secrets stay out of what is told of them."""

from __future__ import annotations

from pathlib import Path

from poolsql.configuration.locations import Locations
from poolsql.configuration.problems import FleetFileError, Problems
from poolsql.redaction import remember_secret

TEXT = '[launchers.l]\nargs = ["x"]\nheadless = 1\n[launchers.l.headers]\nAccept = 7\n'


def told(message: str) -> list[tuple[int, str]]:
    """What is told of one check of the table, with its lines."""
    problems = Problems(Locations(TEXT))
    problems.add_told(("launchers", "l"), ["args", "headless", "headers"], message)
    return [(problem.line, str(problem)) for problem in problems.found]


def test_problems_that_begin_with_their_keys_get_their_lines() -> None:
    assert told("headless: must be true; args: --x: not allowed; headers.Accept: no text") == [
        (3, "[launchers.l.headless] must be true"),
        (2, "[launchers.l.args] --x: not allowed"),
        (5, "[launchers.l.headers.Accept] no text"),
    ]


def test_a_key_that_is_not_there_has_the_line_of_its_table() -> None:
    assert told("token: it is needed; give it by reference") == [
        (1, "[launchers.l.token] it is needed; give it by reference")
    ]


def test_a_key_without_a_colon_stays_in_its_sentence() -> None:
    assert told("headless (1) must be less than args; args2 is none") == [
        (3, "[launchers.l.headless] headless (1) must be less than args; args2 is none")
    ]


def test_what_begins_with_no_key_belongs_to_the_table() -> None:
    assert told("it is wrong; did you mean it?") == [(1, "[launchers.l] it is wrong; did you mean it?")]


def test_names_that_need_quotes_have_them() -> None:
    problems = Problems(Locations('[hosts."a.test"]\ndelay = 1\n'))
    problems.add(("hosts", "a.test", "delay"), "is wrong")
    problems.add(("hosts", ""), "is empty")
    assert [str(problem) for problem in problems.found] == ['[hosts."a.test".delay] is wrong', '[hosts.""] is empty']


def test_a_secret_is_hidden_and_words_about_secrets_are_not() -> None:
    remember_secret("hunter2-of-problems")
    problems = Problems(Locations(TEXT))
    problems.add(("launchers", "l", "token"), "hunter2-of-problems is wrong")
    problems.add(("proxies", "p", "secret"), "its secret is given by reference, as env:NAME")
    assert FleetFileError(Path("fleet.toml"), problems.found).lines() == [
        "fleet.toml:1: [launchers.l.token] [hidden] is wrong",
        "fleet.toml:1: [proxies.p.secret] its secret is given by reference, as env:NAME",
    ]


def test_of_very_many_problems_the_first_are_told() -> None:
    problems = Problems(Locations(TEXT))
    for number in range(1234):
        problems.add(("launchers", "l", "args", number), "is wrong")
        problems.add(("launchers", "l"), f"{number} is wrong")
    lines = FleetFileError(Path("fleet.toml"), problems.found).lines()
    assert (len(lines), lines[-1]) == (201, "fleet.toml: and 1,035 more")
