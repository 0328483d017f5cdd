"""What does not fit the database, or what is in neither, is told with its line, and nothing is changed."""

from __future__ import annotations

import pytest

from poolsql.leasing.retirement import change_state
from tests.integration.configuration.conftest import Declared

BASE = """\
[pools.shop]
[pools.other]
[launchers.chromium]
[proxies.isp1]
server = "http://198.51.100.7:8000"
[[profiles]]
pool = "shop"
launcher = "chromium"
id = "a"
proxy = "isp1"
[hosts."shop.example"]
"""
LINES = BASE.count("\n")
JOB = '[jobs.j]\npool = "shop"\nextract = { t = "h1" }\n'
TARGETS = 'targets = { list = ["https://shop.example/"] }\n'

WRONG = {
    "an unknown pool": (
        "[[profiles]]\npool = \"shpo\" #! [profiles.pool] there is no pool 'shpo', neither in this file nor in the "
        'database; did you mean \'shop\'?\nlauncher = "chromium"\nid = "b"\n'
    ),
    "an unknown launcher and proxy": (
        '[[profiles]]\npool = "shop"\nlauncher = "chromum" #! did you mean \'chromium\'?\nid = "b"\n'
        "proxy = \"isp2\" #! there is no proxy 'isp2'\n"
    ),
    "an unknown pool of many": (
        '[[profiles]]\npool = "zoo" #! there is no pool \'zoo\'\nlauncher = "chromium"\nids = ["b", "c", "d"]\n'
    ),
    "an unknown pool of a job": (
        '[jobs.j]\nextract = { t = "h1" }\n' + TARGETS + "pool = \"shops\" #! there is no pool 'shops'\n"
    ),
    "a misspelt key of a profile": (
        '[[profiles]]\npool = "shop"\nlauncher = "chromium"\nid = "b"\ntgas = ["x"] #! unknown key; did you mean '
        "'tags'?\n"
    ),
    "an option that the launcher does not know": (
        '[[profiles]]\npool = "shop"\nlauncher = "chromium"\nid = "b"\nfoo = 1 #! [profiles.foo] unknown\n'
    ),
    "an option of another type": (
        '[[profiles]]\npool = "shop"\nlauncher = "chromium"\nid = "b"\nheadless = 1 #! [profiles.headless] must be\n'
    ),
    "two profiles on one proxy": (
        '[[profiles]]\npool = "shop"\nlauncher = "chromium"\nid = "b"\n'
        "proxy = \"isp1\" #! proxy 'isp1' belongs to profile chromium/a (line 9) and is not shared\n"
    ),
    "many profiles on one proxy": (
        '[[profiles]]\npool = "shop"\nlauncher = "chromium"\nids = ["b", "c"]\nproxy = "isp3" #! belongs to profile '
        'chromium/b\n[proxies.isp3]\nserver = "http://192.0.2.1:1"\n'
    ),
    "two profiles on one directory": (
        '[[profiles]]\npool = "shop"\nlauncher = "chromium"\nid = "b"\ndirectory = "/d"\n'
        '[[profiles]]\npool = "other"\nlauncher = "chromium"\nid = "c"\n'
        'directory = "/d/" #! [profiles.directory] belongs to profile chromium/b (line 15); two browsers on a\n'
    ),
    "many profiles on one directory": (
        '[[profiles]]\npool = "shop"\nlauncher = "chromium"\nids = ["b", "c"]\ndirectory = "/d" #! belongs to profile '
        "chromium/b\n"
    ),
    "a directory of profiles of two launchers that one machine can have": (
        '[launchers.one]\nmachines = ["m1", "m2"]\n[launchers.two]\nmachines = ["m2"]\n'
        '[[profiles]]\npool = "shop"\nlauncher = "one"\nid = "b"\ndirectory = "/d"\n'
        '[[profiles]]\npool = "shop"\nlauncher = "two"\nid = "b"\ndirectory = "/d" #! belongs to profile one/b\n'
    ),
    "a directory that is no full path": (
        '[[profiles]]\npool = "shop"\nlauncher = "chromium"\nid = "b"\n'
        'directory = "d" #! [profiles.directory] must be the full path\n'
    ),
    "a directory of a launcher": (
        '[launchers.one]\ndirectory = "/d" #! [launchers.one.directory] belongs to one profile\n'
    ),
    "a directory of a job": (
        JOB + TARGETS + "launch = { directory = '/d' } #! cannot take it: directory: belongs to one profile\n"
    ),
    "a target for a profile that is not there": (
        JOB + 'targets = { list = [\n{ url = "https://shop.example/", profile = "a" },\n'
        '{ url = "https://shop.example/", profile = "chromium/a" },\n'
        "{ url = \"https://shop.example/\", profile = \"b\" }, #! pool 'shop' has no profile 'b'\n] }\n"
    ),
    "launch options that its launcher cannot take": (
        JOB + TARGETS + "launch = { headles = true } #! launcher 'chromium' of pool 'shop' cannot take it: headles:\n"
    ),
    "a moment that is over": (
        JOB + TARGETS + "schedule = { once = 2001-01-01T00:00:00Z } #! is over, so the job would never run\n"
    ),
    "a query that writes": (
        JOB + 'targets = { query = "DELETE FROM poolsql.pools RETURNING name AS url" } #! [jobs.j.targets.query]\n'
    ),
    "a query that hides its write": (
        JOB + "targets = { query = \"SELECT nextval('poolsql.pools_id_seq')::text AS url\" } #! read-only\n"
    ),
    "a query that fails": JOB + 'targets = { query = "SELECT url FROM nowhere" } #! relation "nowhere" does not\n',
    "a query without addresses": JOB + 'targets = { query = "SELECT 1 AS one" } #! url has to be there\n',
    "wrong tables that name what is not there": (
        '[[profiles]]\npool = "zoo" #! there is no pool\nlauncher = "chromium"\nid = 7 #! write text\n'
        '[jobs.j]\npool = "zoo" #! there is no pool\nextract = { t = "h1[" } #! [jobs.j.extract.t]\n'
        'targets = { query = "SELECT 1 AS one" } #! url has to be there\n'
    ),
    "file and database at once": (
        '[pools.third]\nttll = 1 #! unknown key\n[[profiles]]\npool = "third"\nlauncher = "nobody" #! there is no\n'
        'id = "z"\n'
    ),
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_what_fits_neither_file_nor_database_is_told_with_its_line(declared: Declared, text: str) -> None:
    expected = [
        (number, mark.strip())
        for number, line in enumerate(text.split("\n"), start=LINES + 1)
        for mark in line.split("#!")[1:]
    ]
    found = declared.problems(BASE + text)
    assert len(found) == len(expected), found
    for (line, mark), problem in zip(expected, found, strict=True):
        assert problem.startswith(f"{line}: "), problem
        assert mark in problem


def test_a_profile_stays_in_its_pool(declared: Declared) -> None:
    declared.apply(BASE)
    assert declared.problems(BASE.replace('pool = "shop"', 'pool = "other"')) == [
        "9: [profiles.id] launcher 'chromium' has profile 'a' in pool 'shop' already, and profiles stay in their pools"
    ]


def test_a_launcher_keeps_its_kind(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_OF_TESTS", "secret-of-tests-2")
    declared.apply(BASE)
    vendor = '[launchers.chromium]\npreset = "justbrowser"\ntoken = "env:TOKEN_OF_TESTS"'
    (problem,) = declared.problems(BASE.replace("[launchers.chromium]", vendor))
    assert problem.startswith("3: [launchers.chromium.kind] launcher 'chromium' exists and is of kind 'local'")


def test_a_proxy_that_the_database_pins_is_not_given_away(declared: Declared) -> None:
    declared.apply(BASE)
    other = BASE.replace('id = "a"', 'id = "b"')
    (problem,) = declared.problems(other)
    assert problem.startswith("10: [profiles.proxy] proxy 'isp1' belongs to profile chromium/a in the database")
    profile = declared.one("SELECT id FROM poolsql.profiles")
    change_state(declared.database, profile.id, "retire", who="bob")
    (problem,) = declared.problems(other)
    assert "chromium/a, which is retired (list it here without the proxy to free that)" in problem
    freed = other + '[[profiles]]\npool = "shop"\nlauncher = "chromium"\nid = "a"\n'
    assert declared.apply(freed) == ["+ profile chromium/b", "~ profile chromium/a: proxy isp1 → none"]


def test_a_directory_that_a_profile_of_the_database_has_is_not_given_away(declared: Declared) -> None:
    mine = BASE.replace('id = "a"\n', 'id = "a"\ndirectory = "/d"\n').replace('proxy = "isp1"\n', "")
    declared.apply(mine)
    # One that no file has declared.
    declared.execute("UPDATE poolsql.profiles SET declared = false")
    other = mine.replace('id = "a"', 'id = "b"')
    (problem,) = declared.problems(other)
    assert problem.startswith("10: [profiles.directory] belongs to profile chromium/a in the database")
    profile = declared.one("SELECT id FROM poolsql.profiles")
    change_state(declared.database, profile.id, "retire", who="bob")
    (problem,) = declared.problems(other)
    assert "chromium/a, which is retired (list it here without the directory to free that)" in problem


def test_machines_that_never_meet_may_have_directories_of_one_name(
    declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_TESTS", "secret-of-tests-2")
    apart = (
        '[launchers.one]\nmachines = ["m1"]\n[launchers.two]\nmachines = ["m2"]\n'
        '[launchers.jb]\npreset = "justbrowser"\ntoken = "env:TOKEN_OF_TESTS"\nvariables = { directory = "x" }\n'
        'start = { path = "/{directory}/{id}/start" }\n'
    ) + "".join(
        f'[[profiles]]\npool = "shop"\nlauncher = "{launcher}"\nid = "{key}"\ndirectory = "/d"\n'
        for launcher, key in (("one", "b"), ("two", "b"), ("jb", "b"), ("jb", "c"))
    )
    # A product's own option of that name may well be the same for two profiles.
    assert len([line for line in declared.apply(BASE + apart) if line.startswith("+ profile")]) == 5


def test_a_proxy_of_several_profiles_stays_shared(declared: Declared) -> None:
    shared = BASE.replace('8000"\n', '8000"\nshared = true\n')
    two = '[[profiles]]\npool = "shop"\nlauncher = "chromium"\nid = "b"\nproxy = "isp1"\n'
    declared.apply(shared + two)
    (problem,) = declared.problems(BASE.replace('proxy = "isp1"\n', "").replace('id = "a"\n', 'id = "c"\n'))
    assert problem.startswith("4: [proxies.isp1.shared] proxy 'isp1' belongs to profile chromium/a in the database")


def test_a_moment_that_is_over_is_no_mistake_of_a_job_that_had_it(declared: Declared) -> None:
    later = BASE + JOB + TARGETS + "schedule = { once = 2999-01-01T00:00:00Z }\n"
    declared.apply(later)
    declared.execute("""UPDATE poolsql.jobs SET schedule = '{"once": "2001-01-01T00:00:00Z"}'""")
    assert declared.plan(later.replace("2999", "2001")).lines() == []
    (problem,) = declared.problems(later.replace("2999", "2002"))
    assert "is over" in problem


def test_a_target_may_name_a_profile_that_only_the_database_has(declared: Declared) -> None:
    declared.apply(BASE)
    job = JOB + 'targets = { list = [{ url = "https://shop.example/", profile = "chromium/a" }] }\n'
    without = BASE[: BASE.index("[[profiles]]")] + '[hosts."shop.example"]\n' + job
    assert "+ job j" in declared.apply(without)


def test_a_query_that_reads_is_taken(declared: Declared) -> None:
    query = "targets = { query = \"SELECT 'https://shop.example/' || name AS url FROM poolsql.pools\" }\n"
    assert "+ job j" in declared.apply(BASE + JOB + query)
