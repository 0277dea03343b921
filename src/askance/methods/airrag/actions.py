"""The actions that AirRAG may take, its own and other methods that answer at the root, and in which order."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from askance.core.errors import KnobError, UnknownName
from askance.core.ports import Method
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, State
from askance.methods.members import Named, told

FULL, LITE, DIRECT = (SAY, DA, RA, QT, SA), (RA, QT, SA), (DA,)
SETS = (FULL, (SAY, RA, QT, SA), LITE, DIRECT)
"""What the actions of its own may be."""


@dataclass(frozen=True, slots=True, repr=False)
class Actions:
    """Names of actions.

    Attributes:
        own: one of `SETS`: all five of AirRAG, the same without a direct answer, those of AirRAG-Lite, or a
            direct answer alone, which is the paper's zero-shot question answering.
        named: other methods, by name; see `HoldsMethods`.

    Raises:
        KnobError: another set, or a method twice.
    """

    own: tuple[str, ...] = FULL
    named: Named = ()

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
        return tuple(name for name, _ in self.named)

    def __repr__(self) -> str:
        return "+".join([*self.own, *(f"{name}={method!r}" for name, method in self.named)])

    def __str__(self) -> str:
        return ",".join([*self.own, *(told(*each) for each in self.named)])


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


@dataclass(frozen=True, slots=True)
class Legality:
    """Which action may follow which (the paper's figure 2 and appendix).

    DA is a candidate beside the paths, or all there is, and otherwise the last resort.

    Attributes:
        most_iterations: of RA, and of QT; SA ends a path of so many.
        early_summary: SA may come while queries are pending.
    """

    actions: Actions = ALL
    most_iterations: int = 4
    early_summary: bool = False

    def after(self, state: State, dead: frozenset[str] = frozenset()) -> tuple[str, ...]:
        """Those legal, without those that gave nothing here; a summary where no other is left.

        At the root, where there is nothing to sum up, the question is searched for as it stands.
        """
        if state.answer is not None:
            return ()
        left = tuple(action for action in self._legal(state) if action not in dead)
        if left:
            return left
        last_resorts = (SA,) if state.history else () if self.actions.is_direct else (RA, DA)
        return tuple(action for action in last_resorts if action not in dead)[:1]

    def _legal(self, state: State) -> Sequence[str]:
        actions = self.actions
        if not state.steps:
            first = (DA,) if actions.is_direct else (RA, QT) if actions.is_lite else (SAY,)
            return (*first, *actions.names)
        if state.last == SAY:
            return (RA, QT)
        most_depth = 2 * self.most_iterations + (not actions.is_lite)
        if len(state.steps) >= most_depth or state.num_repeats > 1:
            return (SA,)
        may_ask = state.times(RA) < self.most_iterations
        if state.last == RA:
            goes_on = may_ask and state.times(QT) < self.most_iterations
            ends = self.early_summary or not state.pending or not goes_on
            return (*((QT,) if goes_on else ()), *((SA,) if ends else ()))
        if state.pending and may_ask:
            return (RA, SA) if self.early_summary and state.history else (RA,)
        return (SA,)
