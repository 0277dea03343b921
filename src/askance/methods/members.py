"""Methods that work for another one, by name: what they need together, and how each is asked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol, Self, runtime_checkable

from askance.core.errors import KnobError, UnknownName
from askance.core.knobs import changed_knobs
from askance.core.ports import ChecksModels, Method, Model, Needs
from askance.core.types import Role

Named = tuple[tuple[str, Method], ...]


@runtime_checkable
class HoldsMethods(Protocol):
    """A knob that holds methods, each of which has a name and knobs of its own."""

    @property
    def named(self) -> Named: ...

    def having(self, named: Named) -> Self:
        """The same with these methods."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class Members:
    """Methods by name, in order.

    Raises:
        KnobError: none, or one name twice.
    """

    named: Named

    def __post_init__(self) -> None:
        if not self.named:
            raise KnobError("knob methods='' of method blender: name one method or more.")
        twice = next((name for name in self.names if self.names.count(name) > 1), None)
        if twice is not None:
            raise KnobError(f"knob methods={str(self)!r} of method blender: {twice} is there twice.")

    @property
    def names(self) -> tuple[str, ...]:
        """In order."""
        return tuple(name for name, _ in self.named)

    def __repr__(self) -> str:
        return "+".join(f"{name}={method!r}" for name, method in self.named)

    def __str__(self) -> str:
        return ",".join(told(*each) for each in self.named)

    def having(self, named: Named) -> "Members":
        """These methods instead."""
        return Members(named)


def told(name: str, method: Method) -> str:
    """A member with the knobs that are not at their defaults: ``single[passages=5]``.

    The brackets are not those of a run's title, in which knobs of the method itself stand.
    """
    changed = " ".join(f"{knob}={value}" for knob, value in changed_knobs(method).items())
    return f"{name}[{changed}]" if changed else name


def by_member(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Settings of a method itself, and those of its members by their names.

    ``{"single.passages": 5}`` and ``{"single": {"passages": 5}}`` both set `passages` of the member `single`.
    """
    own: dict[str, Any] = {}
    of_members: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        member, dot, knob = key.partition(".")
        if dot or isinstance(value, Mapping):
            of_members.setdefault(member, {}).update({knob: value} if dot else value)
        else:
            own[key] = value
    return own, of_members


def joined_needs(needs: Sequence[Needs]) -> Needs:
    """What meets all of `needs`."""
    choices = [each.one_of for each in needs if each.one_of]
    return Needs(
        signals=frozenset().union(*(each.signals for each in needs)),
        capabilities=frozenset().union(*(each.capabilities for each in needs)),
        one_of=tuple(frozenset().union(*chosen) for chosen in product(*choices)) if choices else (),
        attention=any(each.attention for each in needs),
        retriever=any(each.retriever for each in needs),
        roles=frozenset().union(*(each.roles for each in needs)),
        encoder=any(each.encoder for each in needs),
    )


def check_all(methods: Iterable[Method], models: Mapping[Role, Model]) -> None:
    """Raise MissingAbility where one of `methods` can't work with `models`."""
    for method in methods:
        if isinstance(method, ChecksModels):
            method.check_models(models)


def read_members(text: str, methods: Iterable[str], make: Callable[[str], Method]) -> Members:
    """The methods that `text` names, with commas: ``single,dragin``.

    A method that is to be there twice, with other knobs, gets a name of its own: ``single,more=single``.

    Args:
        make: a method by name, as it is without settings.

    Raises:
        UnknownName: no such method.
        KnobError: none, one name twice, or a name that is none.
    """
    known, named = tuple(methods), []
    for part in filter(None, map(str.strip, text.lower().split(","))):
        own, equals, method = (each.strip() for each in part.partition("="))
        if equals and not own.isidentifier():
            raise KnobError(f"knob methods={text!r} of method blender: {own!r} is no name, such as more.")
        if (method or own) not in known:
            raise UnknownName("method", method or own, known, place=f"in methods={text!r}")
        named.append((own, make(method or own)))
    return Members(tuple(named))
