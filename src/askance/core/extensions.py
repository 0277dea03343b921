"""Extensions: what plug-ins and ``module:Class`` stand for, imported on use, and what is wrong with them.

A package offers plug-ins by entry points, in groups such as ``askance.methods``. A name of askance's own is
never a plug-in's.
"""

import re
import sys
import traceback
from collections.abc import Collection, Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from askance.core.errors import InputError

_SPEC = re.compile(r"(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")


@cache
def plugins(kind: str) -> dict[str, tuple[EntryPoint, ...]]:
    """The plug-ins of a kind, such as "methods", by name; more than one is a clash."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=f"askance.{kind}"):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def known_names(kind: str, own: Iterable[str]) -> list[str]:
    """The names that stand for something: askance's own, then those of plug-ins."""
    return list(dict.fromkeys((*own, *plugins(kind))))


def packages_of_plugins(kind: str, own: Collection[str]) -> dict[str, str]:
    """The plug-ins of a kind by name, each with the package that offers it; none is imported."""
    return {
        name: f"a plug-in of {' and '.join(map(_package, points))}"
        for name, points in plugins(kind).items()
        if name not in own
    }


def passed_over(kind: str, own: Collection[str]) -> list[str]:
    """A sentence for each plug-in that took a name of askance's own, and is reached in another way alone."""
    return [
        f"the plug-in {name!r} of {_package(point)} in askance.{kind} is passed over, since the name is "
        f"askance's own: name it {point.value}."
        for name, points in plugins(kind).items()
        if name in own
        for point in points
    ]


def find_with_place(kind: str, spec: str) -> tuple[Any, str] | None:
    """The object behind ``NAME:PLACE`` or ``module:Class``, and the place; None where it is neither.

    Raises:
        InputError: as for `find_extension`.
    """
    name, _, place = spec.partition(":")
    for tried, rest in ((name, place), (spec, "")):
        found = find_extension(kind, tried)
        if found is not None:
            return found, rest
    return None


def find_extension(kind: str, name: str) -> Any:
    """The object that a plug-in's name or ``module:Class`` stands for; None where it is neither.

    Args:
        kind: the plural of what is looked for, such as "methods".

    Raises:
        InputError: two plug-ins of one name, or one that can't be imported.
    """
    points = plugins(kind).get(name, ())
    if len(points) > 1:
        told = " and ".join(f"{_package(point)} ({point.value})" for point in points)
        raise InputError(
            f"two plug-ins are called {name!r} in askance.{kind}: those of {told}. Uninstall one, or name "
            "the one that is meant as module:Class."
        )
    if points:
        return _imported(points[0].value, f"the plug-in {name!r} of {_package(points[0])}")
    if _SPEC.fullmatch(name):
        return _imported(name, name, may_be_absent=True)
    return None


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown package"


def _imported(spec: str, what: str, *, may_be_absent: bool = False) -> Any:
    """What ``module:Class`` stands for; the working folder is looked in last."""
    module, _, name = spec.partition(":")
    here = str(Path.cwd())
    is_added = here not in sys.path
    if is_added:
        sys.path.append(here)
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # a module may raise anything while it is imported
        missing = error.name if may_be_absent and isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):
            return None
        raise InputError(f"{what} can't be imported: {_last_line(error)}") from error
    finally:
        if is_added:
            sys.path.remove(here)
    return found


def _last_line(error: BaseException) -> str:
    """The last line of the error's own traceback, and where it was raised."""
    (line,) = traceback.format_exception_only(error)[-1:]
    told = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in told if "importlib" not in frame.filename]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames[1:] else ""
    return f"{line.strip()}{place}."


def make_extension(factory: Any, what: str, /, *arguments: Any, **options: Any) -> Any:
    """What a class or function of an extension makes; an object that is none of these, itself.

    Raises:
        InputError: it can't be made so.
    """
    if not callable(factory) or not (isinstance(factory, type) or hasattr(factory, "__code__")):
        return factory
    try:
        return factory(*arguments, **options)
    except TypeError as error:
        raise InputError(f"{what} can't be made: {error}.") from error


def check_port(given: object, port: type, what: str) -> None:
    """Raise `InputError`, naming what is lacking, unless an object has all members of its port."""
    members = (name for name in vars(port) if not name.startswith("_"))
    lacking = [name for name in members if not hasattr(given, name)]
    if lacking:
        raise InputError(f"{what} is no {port.__name__.lower()}: it lacks {', '.join(lacking)}.")


def spec_of(cls: type) -> str:
    """The ``module:Class`` that leads to a class; empty where none does."""
    if cls.__module__ == "__main__" or "." in cls.__qualname__:
        return ""
    return f"{cls.__module__}:{cls.__qualname__}"
