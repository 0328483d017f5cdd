"""Handlers by their dotted path, and handlers made of fields."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from poolsql.errors import BadInputError
from poolsql.fleet.session import AsyncSession
from poolsql.scraping.extraction import Field, extract
from poolsql.scraping.steps import PageSteps
from poolsql.scraping.tasks import Task
from poolsql.scraping.visiting import Handler
from poolsql.text import clean_text, did_you_mean

_NAME = r"[^\W\d]\w*"
_PATH = re.compile(rf"({_NAME}(?:\.{_NAME})*)[:.]({_NAME})")
_SIGNATURE = "async def handler(session, task)"


def extracting_handler(fields: Mapping[str, Field], steps: PageSteps | None = None) -> Handler:
    """A handler that makes the page ready and returns its fields."""

    async def handle(session: AsyncSession, _: Task) -> Mapping[str, Any]:
        return await extract(session.page, fields)

    return _after_steps(handle, steps)


def load_handler(path: str, *, steps: PageSteps | None = None) -> Handler:
    """Import a handler of the user's own, ``async def handler(session, task) -> dict``.

    Modules are looked for as Python does, and in the current directory.

    Args:
        path: ``package.module:function`` or ``package.module.function``.
        steps: What is done to each page before the handler is called.

    Raises:
        BadInputError: There is no such function, its module cannot be imported, or it is no such handler.
    """
    parts = _PATH.fullmatch(path)
    if parts is None:
        raise BadInputError(f"handler {_one_line(path)!r}: write it as package.module:function")
    module = _import(parts[1], path)
    function = getattr(module, parts[2], None)
    if function is None:
        raise BadInputError(
            f"handler {path!r}: {_described(module)} has no {parts[2]!r}{did_you_mean(parts[2], vars(module))}"
        )
    _check(function, path)
    handler: Handler = function
    return _after_steps(handler, steps)


def _after_steps(handler: Handler, steps: PageSteps | None) -> Handler:
    if steps is None:
        return handler

    async def handle(session: AsyncSession, task: Task) -> Mapping[str, Any]:
        await steps.apply(session.page)
        return await handler(session, task)

    return handle


def _import(name: str, path: str) -> ModuleType:
    here = str(Path.cwd())
    # A console script has its own folder there, not the current one. At the end, it takes no installed module's place.
    if "" not in sys.path and here not in sys.path:
        sys.path.append(here)
    importlib.invalidate_caches()
    module: ModuleType | None = None
    imported = ""
    for part in name.split("."):
        parent, imported = module, f"{imported}.{part}".removeprefix(".")
        if parent is not None and not hasattr(parent, "__path__"):
            raise BadInputError(f"handler {path!r}: {_described(parent)} is no package and has no module {part!r}")
        try:
            module = importlib.import_module(imported)
        except ModuleNotFoundError as error:
            if error.name != imported:
                raise _broken(path, imported, error) from error
            raise BadInputError(f"handler {path!r}: {_missing(part, imported, parent, here)}") from None
        # A module may raise or exit as it likes; the daemon, which imports in threads, goes on.
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # somebody pressed Ctrl-C
            raise _broken(path, imported, error) from error
    assert module is not None  # noqa: S101 - a name has one part at least
    return module


def _missing(part: str, name: str, parent: ModuleType | None, here: str) -> str:
    if parent is not None:
        beside = [module.name for module in pkgutil.iter_modules(parent.__path__)]
        return f"there is no module {name!r} in {_described(parent)}{did_you_mean(part, beside)}"
    # The current directory first: that is where slips of the pen are meant to lead.
    beside = [module.name for module in pkgutil.iter_modules([here])]
    guess = did_you_mean(part, beside) or did_you_mean(part, [module.name for module in pkgutil.iter_modules()])
    return f"there is no module {name!r}, neither installed nor in {here}{guess}"


def _broken(path: str, module: str, error: BaseException) -> BadInputError:
    told = f"{type(error).__name__}: {_one_line(error)}" if str(error) else type(error).__name__
    return BadInputError(f"handler {path!r}: importing {module!r} failed: {told}")


def _check(function: object, path: str) -> None:
    if not callable(function):
        raise BadInputError(f"handler {path!r}: is no function but {type(function).__name__!r}; write {_SIGNATURE}")
    if not inspect.iscoroutinefunction(function):
        kind = "a class" if isinstance(function, type) else "not async"
        raise BadInputError(f"handler {path!r}: is {kind}; write {_SIGNATURE}")
    signature = inspect.signature(function)
    try:
        signature.bind(None, None)
    except TypeError:
        raise BadInputError(
            f"handler {path!r}: takes {signature} and is called with two arguments; write {_SIGNATURE}"
        ) from None


def _described(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return f"{module.__name__} ({file})" if file else module.__name__


def _one_line(text: object) -> str:
    return " ".join(clean_text(text, limit=300).split())
