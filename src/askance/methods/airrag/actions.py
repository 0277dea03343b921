"""The actions that AirRAG may take: its own, and other methods that answer at the root."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from askance.core.errors import (
    AskanceError,
    BudgetTooSmall,
    KnobError,
    LimitReached,
    ModelSpecError,
    UnknownName,
)
from askance.core.ports import Method, Model, Needs, Run
from askance.core.types import Answer, Question, Role
from askance.methods.airrag.state import DA, QT, RA, SA, SAY
from askance.methods.budget import Allowance, NoRoom
from askance.methods.members import Named, answer_of, check_all, joined_needs, told

FULL, LITE, DIRECT = (SAY, DA, RA, QT, SA), (RA, QT, SA), (DA,)
SETS = (FULL, (SAY, RA, QT, SA), LITE, DIRECT)
"""What the actions of its own may be."""


@dataclass(frozen=True, slots=True, repr=False)
class Actions:
    """Names of actions.

    Attributes:
        own: one of `SETS`: all five of AirRAG, the same without a direct answer, those of AirRAG-Lite, or a
            direct answer alone, which is the paper's zero-shot question answering.
        further: other methods, by name.

    Raises:
        KnobError: another set, or a method twice.
    """

    own: tuple[str, ...] = FULL
    further: Named = ()

    def __post_init__(self) -> None:
        if self.own not in SETS:
            sets = "; ".join(",".join(each) for each in SETS)
            raise KnobError(
                f"knob actions={str(self)!r} of method airrag: no path can be made of "
                f"{','.join(self.own) or 'nothing'}. Give one of these sets, and other methods behind it "
                f"if you like: {sets}."
            )
        for name in self.names:
            if self.names.count(name) > 1:
                raise KnobError(f"knob actions={str(self)!r} of method airrag: {name} is there twice.")

    @property
    def is_lite(self) -> bool:
        """Whether there is no analysis at the root."""
        return self.own == LITE

    @property
    def is_direct(self) -> bool:
        """Whether nothing is searched for."""
        return self.own == DIRECT

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the other methods."""
        return tuple(name for name, _ in self.further)

    @property
    def named(self) -> Named:
        """The other methods; see `HoldsMethods`."""
        return self.further

    def having(self, named: Named) -> "Actions":
        """The same with these other methods."""
        return replace(self, further=named)

    def __repr__(self) -> str:
        return "+".join([*self.own, *(f"{name}={method!r}" for name, method in self.further)])

    def __str__(self) -> str:
        return ",".join([*self.own, *(told(*each) for each in self.further)])

    def needs(self, own: Needs) -> Needs:
        """What AirRAG with these actions asks for, which alone asks for `own`."""
        return joined_needs([own, *(method.needs for _, method in self.further)])

    def check_models(self, models: Mapping[Role, Model]) -> None:
        """Raise MissingAbility where another method can't work with `models`."""
        check_all((method for _, method in self.further), models)

    async def answer(self, name: str, question: Question, run: Run, allowance: Allowance) -> Answer | None:
        """What another method answers within `allowance`; None where it fails, which the trace has."""
        method = dict(self.further)[name]
        try:
            return await answer_of(name, method, question, replace(run, trace=run.trace.aside()), allowance)
        except (NoRoom, BudgetTooSmall):
            run.trace.decide("action", "no room", f"{name} does not fit into the budget")
        except (LimitReached, ModelSpecError):
            raise
        except AskanceError as error:
            run.trace.decide("action", "failed", f"{name}: {error}")
        return None


def read_actions(text: str, methods: Iterable[str], make: Callable[[str], Method]) -> Actions:
    """The actions that `text` names, with commas: ``say,da,ra,qt,sa,dragin``.

    Args:
        methods: names of methods that may be actions.
        make: a method by name, as it is without settings.

    Raises:
        UnknownName: neither an action nor a method.
        KnobError: a set of actions that no path can be made of, or a name twice.
    """
    names, known = [name.strip().lower() for name in text.split(",")], tuple(methods)
    for name in names:
        if name not in (*FULL, *known):
            raise UnknownName("action", name, (*FULL, *known), place=f"in actions={text!r}")
    own = tuple(name for name in names if name in FULL)
    ordered = next((each for each in SETS if sorted(each) == sorted(own)), own)
    return Actions(ordered, tuple((name, make(name)) for name in names if name not in FULL))


ALL, WITHOUT_ANALYSIS = Actions(), Actions(LITE)
