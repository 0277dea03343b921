"""Methods that work for another one, by name: what they need together, and how each is asked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from askance.core.errors import KnobError, UnknownName
from askance.core.ports import ChecksModels, Method, Model, Needs
from askance.core.types import Role


@dataclass(frozen=True, slots=True, repr=False)
class Members:
    """Methods by name, in order.

    Raises:
        KnobError: none, or one twice.
    """

    named: tuple[tuple[str, Method], ...]

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
        return "+".join(f"{method!r}" for _, method in self.named)

    def __str__(self) -> str:
        return ",".join(self.names)


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

    Args:
        make: a method by name, as it is without settings.

    Raises:
        UnknownName: no such method.
        KnobError: none, or one twice.
    """
    names, known = [name.strip().lower() for name in text.split(",") if name.strip()], tuple(methods)
    for name in names:
        if name not in known:
            raise UnknownName("method", name, known, place=f"in methods={text!r}")
    return Members(tuple((name, make(name)) for name in names))
