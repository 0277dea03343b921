"""Named methods that another method calls: their settings, their needs, and their answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from askance.core.answers import Answer
from askance.core.errors import AskanceError, LimitReached, ModelSpecError, ParameterError, UnknownName
from askance.core.parameters import method_spec
from askance.core.ports import ChecksModels, Method, Needs, RoleModel, Run
from askance.core.token_ledger import NoRoom, TokenLedger, budgeted
from askance.core.types import Question, Role
from askance.methods.common.token_limit import answer_within_limit

NamedMethods = tuple[tuple[str, Method], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Members:
    """The methods that another method calls, in order, by names that differ from each other.

    Attributes:
        own: The names of actions instead of methods, listed before `named`.

    Raises:
        ParameterError: A name occurs twice.
    """

    named: NamedMethods
    own: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        twice = next((name for name in self.names if self.names.count(name) > 1), None)
        if twice is not None:
            raise ParameterError(f"{str(self)!r} can't be used: {twice} occurs twice.")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the methods, in order."""
        return tuple(name for name, _ in self.named)

    @property
    def needs(self) -> list[Needs]:
        """The needs of each method."""
        return [method.needs for _, method in self.named]

    def check_models(self, models: Mapping[Role, RoleModel]) -> None:
        """Raise MissingAbility if one of the methods can't work with `models`."""
        for _, method in self.named:
            if isinstance(method, ChecksModels):
                method.check_models(models)

    def arguments(self, parameter: str) -> dict[str, Any]:
        """Return the arguments of a specification that make this collection (see `core.spec`)."""
        members = {name: method_spec(method) for name, method in self.named}
        return ({parameter: ",".join(self.own)} if self.own else {}) | members

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        specs = {name: str(method_spec(method)) for name, method in self.named}
        members = (name if spec == name else f"{name}={spec}" for name, spec in specs.items())
        return ",".join([*self.own, *members])


async def member_answer(
    name: str, method: Method, question: Question, run: Run, ledger: TokenLedger
) -> tuple[Answer, Exception | None]:
    """Return a member's answer, whose calls stay within a token budget, and the error that ended it, if any.

    The number of tokens left in the budget also limits the member's own L_max.

    Raises:
        LimitReached, ModelSpecError: The whole question can't be answered.
    """
    models = {role: budgeted(model, ledger, scope=(name,)) for role, model in run.models.items()}
    member: Any = method
    if ledger.left is not None and hasattr(method, "l_max"):
        l_max = ledger.left if member.l_max is None else min(member.l_max, ledger.left)
        member = replace(member, l_max=max(1, l_max))  # the parameter must be at least 1
    try:
        return await answer_within_limit(member, question, replace(run, models=models)), None
    except (LimitReached, ModelSpecError):
        raise
    except (AskanceError, NoRoom) as error:
        return Answer(""), error


def combined_needs(needs: Sequence[Needs]) -> Needs:
    """Return the needs of a method that calls methods with the given needs."""
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


def parse_members(text: str, methods: Iterable[str], make: Callable[[str], Method]) -> Members:
    """Parse a comma-separated list of methods: ``single,dragin``.

    To list a method twice, with different parameters, give it a second name: ``single,more=single``.

    Args:
        make: A function that returns the method with a given name, with its default parameters.

    Raises:
        UnknownName: A method does not exist.
        ParameterError: No method is named, a name occurs twice, or a name is not valid.
    """
    known, named, place = tuple(methods), [], f"parameter methods={text!r} of method blender"
    for part in filter(None, map(str.strip, text.split(","))):
        own, equals, base = (piece.strip() for piece in part.partition("="))
        method = (base or own).lower()
        if equals and not own.isidentifier():
            raise ParameterError(f"{place}: {own!r} is not a valid name, such as more.")
        if method not in known:
            raise UnknownName("method", method, known, place=f"in methods={text!r}")
        named.append((own if equals else method, make(method)))
    if not named:
        raise ParameterError(f"{place}: name one or more methods.")
    return Members(tuple(named))
