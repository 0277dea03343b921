"""Extensions: plug-ins and ``module:Class`` names, resolved to objects and imported on use.

A package offers plug-ins through entry points, in groups such as ``askance.methods``. Built-in names take
precedence over plug-ins. A class or function is only called if it declares itself an implementation of the
port: a plug-in by its entry point, and what ``module:Class`` names by `implements`.
"""

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from askance.core.errors import FunctionFailure, InputError, MissingExtra
from askance.core.installing import LAB, install_line
from askance.core.version import VERSION

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

LABORATORY = {
    "commands": ("train", "annotate", "sweep"),
    "methods": (
        "flare_token", "flare_entity", "dragin_authors", "selfrag_authors", "closed_book_authors",
        "single_authors", "fixed_length_authors", "fixed_sentence_authors",
    ),
    "models": ("features",),
}  # fmt: skip
"""The names that the plug-in askance-lab adds, by kind: without it, a message says how to install it."""

F = TypeVar("F")
_SPEC = re.compile(r"(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")


def implements(port: type) -> Callable[[F], F]:
    """Return a decorator that declares a class or a factory function an implementation of a port.

    Without this declaration, what ``module:Class`` names is never called. Subclasses inherit it.
    """

    def declare(factory: F) -> F:
        setattr(factory, _DECLARED, port)
        return factory

    return declare


_DECLARED = "__askance_port__"


@dataclass(frozen=True, slots=True)
class Extension:
    """The class, function or object that a plug-in or ``module:Class`` names.

    Attributes:
        target: The class, function or object.
        module: The name of the module that it was imported from.
        is_declared: True for what needs no `implements`: a part of askance, or a plug-in, which its package
            declares through an entry point.
        place: The part of a specification after the name of a plug-in and a colon.
    """

    target: Any
    module: str
    is_declared: bool
    place: str = ""

    def make(self, ports: tuple[type, ...], what: str, /, *arguments: Any, **options: Any) -> Any:
        """Return an object that has the members of a port.

        A class or function is called with the arguments; any other object is returned unchanged.

        Args:
            ports: The port, perhaps followed by classes whose instances may take its place.
            what: The extension's name for messages, such as "the retriever NAME".

        Raises:
            InputError: The class or function does not declare itself an implementation of the port, does
                not accept these arguments, or makes something that lacks members of the port.
        """
        made = self.target
        if isinstance(made, type) or hasattr(made, "__code__"):
            self.check_declared(ports, what)
            try:
                made = made(*arguments, **options)
            except TypeError as error:
                raise InputError(f"{what} can't be made: {error}.") from error
        port, *others = ports
        if isinstance(made, tuple(others)):
            return made
        check_port(made, port, what)
        return awaitable(made, port)

    def check_declared(self, ports: tuple[type, ...], what: str) -> None:
        """Raise `InputError` for a class or function that does not declare that it implements one of `ports`.

        A class also declares itself by having the port among its base classes.
        """
        declared = {getattr(self.target, _DECLARED, None), *getattr(self.target, "__mro__", ())}
        if self.is_declared or not declared.isdisjoint(ports):
            return
        port = ports[0]
        raise InputError(
            f"{what} does not declare itself a {port.__name__.lower()}, so it is not called: write "
            f"@askance.implements({port.__name__}) above it if it is one."
        )


@dataclass(frozen=True, slots=True, repr=False)
class NamedFunction:
    """A function as the value of a parameter or setting.

    Attributes:
        name: The name in the catalogue or of a plug-in, or ``module:function``.
        function: The function.
    """

    name: str
    function: Callable[..., Any]

    def __repr__(self) -> str:
        return self.name

    def text(self, *arguments: Any) -> str:
        """Return the text that the function returns.

        Raises:
            FunctionFailure: It raised an error or returned something else.
        """
        try:
            text = self.function(*arguments)
        except Exception as error:  # it may be somebody else's code
            raise FunctionFailure(f"{self.name} failed: {type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise FunctionFailure(f"{self.name} returned {text!r:.99}: expected a text.")
        return text


@cache
def plugins(kind: str) -> dict[str, tuple["EntryPoint", ...]]:
    """Return the entry points of a kind of plug-in, such as "methods", by name.

    A name has several entry points if several packages register it.
    """
    from importlib.metadata import entry_points  # slow to import

    points: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=f"askance.{kind}"):
        points[point.name] = (*points.get(point.name, ()), point)
    return points


def known_names(kind: str, own: Iterable[str]) -> list[str]:
    """Return all valid names: the built-in ones, then those of plug-ins."""
    return list(dict.fromkeys((*own, *plugins(kind))))


def packages_of_plugins(kind: str, own: Collection[str]) -> dict[str, str]:
    """Return the description "a plug-in of PACKAGE" for each plug-in of a kind, by name.

    Plug-ins that share a name with a built-in are left out. No plug-in is imported.
    """
    return {
        name: f"a plug-in of {' and '.join(map(_package, points))}"
        for name, points in plugins(kind).items()
        if name not in own
    }


def passed_over(kind: str, own: Collection[str]) -> list[str]:
    """Return a message for each plug-in that is ignored because a built-in has the same name."""
    return [
        f"the plug-in {name!r} of {_package(point)} in askance.{kind} is ignored, since the name is "
        f"built in: write {point.value} to use it."
        for name, points in plugins(kind).items()
        if name in own
        for point in points
    ]


def find_with_place(kind: str, spec: str) -> Extension | None:
    """Resolve ``NAME:PLACE`` or ``module:Class``.

    Returns:
        The extension with its place, or None if `spec` names no extension.

    Raises:
        InputError: See `find_extension`.
    """
    name, _, place = spec.partition(":")
    plugin = find_extension(kind, name)
    return find_extension(kind, spec) if plugin is None else replace(plugin, place=place)


def find_extension(kind: str, name: str) -> Extension | None:
    """Resolve the name of a plug-in or ``module:Class``.

    Args:
        kind: The kind of extension as a plural, such as "methods".
        name: The name of a plug-in, or ``module:Class``.

    Returns:
        The extension, or None if `name` is neither.

    Raises:
        InputError: Two plug-ins share the name, the extension can't be imported, or it is a plug-in in a
            laboratory of another version than askance.
        MissingExtra: It is the name of a plug-in in the laboratory, which is not installed.
    """
    points = plugins(kind).get(name, ())
    if not points and name in LABORATORY.get(kind, ()):
        raise MissingExtra(LAB, LAB, f"the {kind.removesuffix('s')} {name}")
    if len(points) > 1:
        packages = " and ".join(f"{_package(point)} ({point.value})" for point in points)
        raise InputError(
            f"two plug-ins are called {name!r} in askance.{kind}: those of {packages}. Uninstall one, or "
            "name the one you mean as module:Class."
        )
    if points:
        what = f"the plug-in {name!r} of {_package(points[0])}"
        dist = points[0].dist
        if dist is not None and dist.name == LAB and dist.version != VERSION:
            raise InputError(
                f"{what} needs askance {dist.version}, and this is {VERSION}; install the laboratory of this "
                f"version: {install_line(LAB)}"
            )
        spec = points[0].value
        return Extension(_imported(spec, what), spec.partition(":")[0], is_declared=True)
    target = _imported(name, name, may_be_absent=True) if _SPEC.fullmatch(name) else None
    return None if target is None else Extension(target, name.partition(":")[0], is_declared=False)


def names_code(kind: str, name: str) -> bool:
    """Return whether `name` is a plug-in or has the form ``module:Class``. Nothing is imported."""
    return bool(name.partition(":")[0] in plugins(kind) or _SPEC.fullmatch(name))


def _package(point: "EntryPoint") -> str:
    return point.dist.name if point.dist is not None else "an unknown package"


def _imported(spec: str, what: str, *, may_be_absent: bool = False) -> Any:
    """Import ``module:Class`` and return the object.

    The working folder is searched for the module last.
    """
    module, _, name = spec.partition(":")
    here = str(Path.cwd())
    is_added = here not in sys.path
    if is_added:
        sys.path.append(here)
    try:
        imported: Any = import_module(module)
        for part in name.split("."):
            imported = getattr(imported, part)
    except (Exception, SystemExit) as error:  # a module may raise anything while it is imported
        missing = error.name if may_be_absent and isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):
            return None
        raise InputError(f"{what} can't be imported: {_last_line(error)}") from error
    finally:
        if is_added:
            sys.path.remove(here)
    return imported


def _last_line(error: BaseException) -> str:
    """Return the last line of an error's traceback, with the file and line in which the error was raised."""
    (line,) = traceback.format_exception_only(error)[-1:]
    all_frames = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in all_frames if "importlib" not in frame.filename]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames[1:] else ""
    return f"{line.strip()}{place}."


def load_langchain_object(kind: str, name: str, member: str, what: str) -> Any:
    """Import the object of LangChain that ``langchain:module:object`` names.

    A class of LangChain is called without arguments.

    Args:
        kind: The kind of extension as a plural, such as "retrievers".
        name: The specification without ``langchain:``.
        member: The name of a method that the object must have.
        what: The description of such objects for messages, such as "retriever".

    Raises:
        MissingExtra: LangChain is not installed.
        InputError: There is no such object, it can't be imported or made, or it is not of LangChain.
    """
    spec = f"langchain:{name}"
    if find_spec("langchain_core") is None:
        raise MissingExtra("langchain-core", "langchain", spec)
    from langchain_core.runnables import Runnable

    extension = find_extension(kind, name)
    if extension is None:
        raise InputError(f"{spec!r} names no object that can be imported: write langchain:module:object.")
    found = extension.target
    if isinstance(found, type) and issubclass(found, Runnable):
        try:
            found = found()
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{spec} can't be made: {error}. Name an object in place of its class."
            ) from error
    if not isinstance(found, Runnable) or not hasattr(found, member):
        is_a = type(found).__name__
        raise InputError(f"{spec!r} is no {what} of LangChain ({is_a}): it has no {member}.")
    return found


def check_port(given: object, port: type, what: str) -> None:
    """Check that an object has the members of its port, and that its functions take the same arguments.

    Raises:
        InputError: A member is missing or takes other arguments. The message names the members.
    """
    members = {name: member for name, member in vars(port).items() if not name.startswith("_")}
    wrong, remedy = f"{what} is no {port.__name__.lower()}", "docs/extending.md shows one."
    missing = [name for name in members if not hasattr(given, name)]
    if missing:
        raise InputError(f"{wrong}: it lacks {', '.join(missing)}; {remedy}")
    for name, member in members.items():
        if not inspect.isfunction(member):
            continue
        _, *wanted = inspect.signature(member).parameters.values()
        by_name = {each.name: None for each in wanted if each.kind is each.KEYWORD_ONLY}
        try:
            inspect.signature(getattr(given, name)).bind(*wanted[: len(wanted) - len(by_name)], **by_name)
        except TypeError as error:
            shown = inspect.Signature([each.replace(annotation=each.empty) for each in wanted])
            raise InputError(f"{wrong}: it can't be called as {name}{shown}, {error}; {remedy}") from error
        except ValueError:  # a function in C whose arguments are unknown
            continue


def awaitable(given: Any, port: type) -> Any:
    """Return an object whose functions can be awaited where those of its port can; usually itself."""
    names = [name for name, member in vars(port).items() if inspect.iscoroutinefunction(member)]
    are_plain = [name for name in names if not inspect.iscoroutinefunction(getattr(given, name))]
    return _WithCoroutines(given, are_plain) if are_plain else given


class _WithCoroutines:
    """An object around another one, some of whose functions become coroutine functions."""

    def __init__(self, given: Any, names: Iterable[str]) -> None:
        self._given = given
        vars(self).update({name: partial(_call, getattr(given, name)) for name in names})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._given, name)


async def _call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    result = function(*arguments, **options)
    return await result if inspect.isawaitable(result) else result


def spec_of(cls: type) -> str:
    """Return ``module:Class`` for a class, or an empty string if the class can't be imported by name."""
    if cls.__module__ == "__main__" or "." in cls.__qualname__:
        return ""
    return f"{cls.__module__}:{cls.__qualname__}"
