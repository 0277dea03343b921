"""Methods that work for another one, by name: what they need together, and how each is asked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import product
from typing import Any, cast

from askance.core.errors import ParameterError, UnknownName
from askance.core.parameters import changed_parameters, name_of
from askance.core.ports import ChecksModels, Method, Model, Needs, Run
from askance.core.token_ledger import BudgetedModel, TokenLedger
from askance.core.types import Answer, Question, Role
from askance.methods.common.token_limit import answer_within

Named = tuple[tuple[str, Method], ...]


class HoldsMethods:
    """Base of parameters that hold methods, each of which has a name and parameters of its own.

    Attributes:
        own: names that stand before those of the methods.
    """

    __slots__ = ()

    named: Named
    own: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the methods, in order."""
        return tuple(name for name, _ in self.named)

    def check_names(self, parameter: str) -> None:
        """Raise ParameterError, naming the parameter, where one name is there twice."""
        twice = next((name for name in self.names if self.names.count(name) > 1), None)
        if twice is not None:
            raise ParameterError(f"parameter {parameter}: {twice} is there twice.")

    def __repr__(self) -> str:
        return "+".join([*self.own, *(f"{name}={method!r}" for name, method in self.named)])

    def __str__(self) -> str:
        return ",".join([*self.own, *(told(*each) for each in self.named)])


@dataclass(frozen=True, slots=True, repr=False)
class Members(HoldsMethods):
    """Methods by name, in order.

    Raises:
        ParameterError: none, or one name twice.
    """

    named: Named

    def __post_init__(self) -> None:
        if not self.named:
            raise ParameterError("parameter methods='' of method blender: name one method or more.")
        self.check_names(f"methods={str(self)!r} of method blender")


def told(name: str, method: Method) -> str:
    """A member with the parameters that are not at their defaults: ``single[passages=5]``, or ``more=single``
    where its name is not its method's.

    The brackets are not those of a run's title, in which parameters of the method itself stand.
    """
    asked = name if name == name_of(type(method)) else f"{name}={name_of(type(method))}"
    changed = " ".join(f"{parameter}={value}" for parameter, value in changed_parameters(method).items())
    return f"{asked}[{changed}]" if changed else asked


def by_member(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Settings of a method itself, and those of its members by their names.

    ``{"single.passages": 5}`` and ``{"single": {"passages": 5}}`` both set `passages` of the member `single`.
    """
    own: dict[str, Any] = {}
    of_members: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        member, dot, parameter = key.partition(".")
        if dot or isinstance(value, Mapping):
            of_members.setdefault(member, {}).update({parameter: value} if dot else value)
        else:
            own[key] = value
    return own, of_members


def of_member(member: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A member's settings as `by_member` reads them."""
    return {f"{member}.{parameter}": value for parameter, value in settings.items()}


def with_settings(
    method: Any, settings: Mapping[str, Any], in_profile: Callable[[Any, Mapping[str, Any]], Any]
) -> Method:
    """A method with settings, its own and those of its members, that are values of the parameters' types.

    Args:
        in_profile: the reading of a method that the profile among some settings names.
    """
    own, of_members = by_member(settings)
    method = in_profile(method, own)
    holding = _held(method, own)
    if of_members and holding is not None:
        parameter, held = holding
        members = (
            (name, with_settings(each, of_members.get(name, {}), in_profile)) for name, each in held.named
        )
        own[parameter] = replace(cast(Any, held), named=tuple(members))
    return cast(Method, replace(method, **own) if own else method)


def members_of(method: Any, settings: Mapping[str, Any]) -> dict[str, Method] | None:
    """The methods that a method with some settings asks, by name; None for one that never asks any."""
    holding = _held(method, settings)
    return None if holding is None else dict(holding[1].named)


def _held(method: Any, settings: Mapping[str, Any]) -> tuple[str, HoldsMethods] | None:
    """The parameter that holds other methods, and what it holds, where a method has one."""
    parameters = fields(method) if is_dataclass(method) else ()
    values = {field.name: settings.get(field.name, getattr(method, field.name)) for field in parameters}
    held = ((parameter, value) for parameter, value in values.items() if isinstance(value, HoldsMethods))
    return next(held, None)


async def answer_of(name: str, method: Method, question: Question, run: Run, ledger: TokenLedger) -> Answer:
    """What a member answers within a ledger, of which it knows if it can keep an L_max.

    Raises:
        BudgetTooSmall, NoRoom: there is no room for an answer.
    """
    models = {role: BudgetedModel(model, ledger, scope=(name,)) for role, model in run.models.items()}
    own: Any = method
    if ledger.left is not None and hasattr(method, "l_max"):
        l_max = ledger.left if own.l_max is None else min(own.l_max, ledger.left)
        own = replace(own, l_max=max(1, l_max))  # 0 is as good as 1
    return await answer_within(own, question, replace(run, models=models))


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

    A method that is to be there twice, with other parameters, gets a name of its own: ``single,more=single``.

    Args:
        make: a method by name, as it is without settings.

    Raises:
        UnknownName: no such method.
        ParameterError: none, one name twice, or a name that is none.
    """
    known, named = tuple(methods), []
    for part in filter(None, map(str.strip, text.split(","))):
        own, equals, asked = (each.strip() for each in part.partition("="))
        method = (asked or own).lower()
        if equals and not own.isidentifier():
            raise ParameterError(
                f"parameter methods={text!r} of method blender: {own!r} is no name, such as more."
            )
        if method not in known:
            raise UnknownName("method", method, known, place=f"in methods={text!r}")
        named.append((own if equals else method, make(method)))
    return Members(tuple(named))
