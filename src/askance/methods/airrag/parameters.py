"""The parameters of AirRAG, its actions among them, and what follows from them alone."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from askance.core.concurrency import Together, gather_or_cancel, in_turn
from askance.core.errors import ParameterError, UnknownName
from askance.core.parameters import Parameters, name_of, parameter
from askance.core.ports import Method
from askance.core.types import Sampling
from askance.methods.airrag.choosing import Verifier
from askance.methods.airrag.prompt_template import DEMO_KEYS, OWN, AirragPromptTemplate
from askance.methods.airrag.prompts import QUERY_STOPS
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, PathState
from askance.methods.common.named_methods import MethodCollection, NamedMethods
from askance.methods.common.prompts import STOPS

FULL, LITE, DIRECT = (SAY, DA, RA, QT, SA), (RA, QT, SA), (DA,)
SETS = (FULL, (SAY, RA, QT, SA), LITE, DIRECT)
"""What the actions of its own may be."""


@dataclass(frozen=True, slots=True, repr=False)
class Actions(MethodCollection):
    """Names of actions.

    Attributes:
        own: one of `SETS`: all five of AirRAG, the same without a direct answer, those of AirRAG-Lite, or a
            direct answer alone, which is the paper's zero-shot question answering.
        named: other methods, by name.

    Raises:
        ParameterError: another set, or a method twice.
    """

    own: tuple[str, ...] = FULL
    named: NamedMethods = ()

    def __post_init__(self) -> None:
        if self.own not in SETS:
            sets = "; ".join(",".join(each) for each in SETS)
            raise ParameterError(
                f"parameter actions={str(self)!r} of method airrag: no path can be made of "
                f"{','.join(self.own) or 'nothing'}. Give one of these sets, and other methods behind it "
                f"if you like: {sets}."
            )
        self.check_names_are_unique(f"actions={str(self)!r} of method airrag")

    @property
    def is_lite(self) -> bool:
        """Whether there is no analysis at the root."""
        return self.own == LITE

    @property
    def is_direct(self) -> bool:
        """Whether nothing is searched for."""
        return self.own == DIRECT


def read_actions(text: str, methods: Iterable[str], make: Callable[[str], Method]) -> Actions:
    """The actions that `text` names, with commas: ``say,da,ra,qt,sa,dragin``.

    Args:
        methods: names of methods that may be actions.
        make: a method by name, as it is without settings.

    Raises:
        UnknownName: neither an action nor a method.
        ParameterError: a set of actions that no path can be made of, or a name twice.
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
class AirragParameters(Parameters):
    """What can be set of AirRAG."""

    rollouts: int = parameter(1, "paths to try", at_least=1)
    samples: int = parameter(
        1, "replies of SAY and QT to draw at once; the one most like all others is followed first", at_least=1
    )
    answer_samples: int = parameter(1, "replies of RA, SA and DA to draw at once", at_least=1)
    q_div: float = parameter(
        0.0, "how far SAY and QT go from temperature and top_p to 1 and 1", at_least=0, at_most=1
    )
    temperature: float = parameter(0.7, "of all replies but the verifier's", at_least=0)
    top_p: float = parameter(0.8, "probability mass to sample from", at_least=0.01, at_most=1)
    top_k: int = parameter(50, "tokens to sample from; 0: all", at_least=0)
    passages: int = parameter(
        3,
        "passages for a sub-query; 0: as many as l_max and the window have room for, up to most_passages",
        at_least=0,
    )
    most_passages: int | None = parameter(None, "the most of them; none: no other limit", at_least=1)
    l_max: int | None = parameter(
        None, "most input tokens of all calls of a question; none: no limit", at_least=1
    )
    count_verifier: bool = parameter(True, "whether the verifier's call counts against l_max")
    verifier: Verifier = parameter(
        "sa", "who chooses: a call that sees all answers, common words, vectors, or a reward model"
    )
    reward: Literal["consistency", "rm", "mixed"] = parameter(
        "consistency", "what a path is worth while searching: common words, a reward model, or half of each"
    )
    vote_power: float = parameter(0.0, "weight of a reply's share of the samples drawn beside it", at_least=0)
    exploration: float = parameter(2.0, "weight of what was visited rarely", at_least=0)
    schedule: Literal["constant", "linear", "exponential"] = parameter("constant", "how that weight falls")
    expansion: Literal["lazy", "eager"] = parameter(
        "lazy", "draw for an action when it is taken, or for all actions of a node at once"
    )
    unexplored: Literal["first", "random"] = parameter("first", "which of several new nodes comes first")
    skip_exhausted: bool = parameter(True, "never visit an end twice, and stop when nothing is left")
    wave: int = parameter(4, "rollouts side by side", at_least=1)
    stop_agreed: int = parameter(
        0, "end the search once so many rollouts, and all answers, came to the same; 0: never", at_least=0
    )
    stop_decided: bool = parameter(
        False, "end the search once no vote to come can change the words of the answer (jcd and rm_vote)"
    )
    actions: Actions = parameter(ALL, "what a path may consist of: its own, and other methods by name")
    followup_qt: Literal["if_no_plan", "always", "never"] = parameter(
        "if_no_plan", "when the first rollout asks for a follow-up once all is answered"
    )
    early_sa: bool = parameter(False, "sum up also while sub-queries are left")
    multi_query: bool = parameter(False, "RA searches with all queries of the QT before it, not with one")
    most_iterations: int = parameter(4, "most RA, and most QT, of a path", at_least=1)
    prompts: AirragPromptTemplate = parameter(
        OWN, "the words of the prompts, and worked examples: a set, or a file"
    )
    examples: int | None = parameter(
        None, "worked examples in the prompts of SAY, QT and SA; none: as many as the set says", at_least=0
    )
    query_tokens: int = parameter(256, "most new tokens of SAY and QT", at_least=1)
    answer_tokens: int = parameter(256, "most new tokens of RA", at_least=1)
    summary_tokens: int = parameter(128, "most new tokens of SA and DA", at_least=1)

    def __post_init__(self) -> None:
        Parameters.__post_init__(self)
        most = max(len(getattr(self.prompts, key)) for key in DEMO_KEYS)
        if self.num_examples > most:
            name, number = name_of(type(self)), self.num_examples
            raise ParameterError(f"parameter examples={number} of method {name}: {self.prompts} has {most}.")

    @property
    def is_judged(self) -> bool:
        """Whether paths are scored by the model in the role reward, or by the one that answers."""
        return self.verifier in ("rm", "rm_vote") or self.reward != "consistency"

    @property
    def draws_beside(self) -> bool:
        """Whether a direct answer is a candidate beside the paths."""
        return DA in self.actions.own and not self.actions.is_direct

    @property
    def num_examples(self) -> int:
        """Worked examples in the prompts of SAY, QT and SA."""
        return self.prompts.examples if self.examples is None else self.examples

    @property
    def together(self) -> Together:
        """How calls that do not need each other are made: within an L_max in turn, so that what is left out
        never depends on timing.
        """
        return gather_or_cancel if self.l_max is None else in_turn

    def weight(self, rollout: int) -> float:
        """The weight in a rollout of what was visited rarely; it falls as the schedule says."""
        done = rollout / self.rollouts
        factors = {"constant": 1.0, "linear": 1 - 0.9 * done, "exponential": math.pow(0.1, done)}
        return self.exploration * factors[self.schedule]

    def samples_of(self, action: str) -> int:
        """Replies of an action drawn at once."""
        return self.samples if action in (SAY, QT) else self.answer_samples

    def sampling(self, action: str, *, is_chat: bool = False) -> Sampling:
        """How an action's replies are drawn; they end where an invented next question would begin."""
        lists_queries = action in (SAY, QT)
        far = self.q_div if lists_queries else 0.0
        tokens = {SAY: self.query_tokens, QT: self.query_tokens, RA: self.answer_tokens}
        return Sampling(
            tokens.get(action, self.summary_tokens),
            temperature=self.temperature + far * (1 - self.temperature),
            top_p=self.top_p + far * (1 - self.top_p),
            top_k=self.top_k,
            stop=QUERY_STOPS if lists_queries and is_chat else STOPS,
        )

    def actions_after(self, state: PathState, dead: frozenset[str] = frozenset()) -> tuple[str, ...]:
        """The legal actions (the paper's figure 2 and appendix), without those that gave nothing here.

        Where none is left, a summary is legal.
        DA is a candidate beside the paths, or all there is, and otherwise the last resort. At the root, where
        there is nothing to sum up, the question is searched for as it stands.
        """
        if state.answer is not None:
            return ()
        left = tuple(action for action in self._legal(state) if action not in dead)
        if left:
            return left
        last_resorts = (SA,) if state.history else () if self.actions.is_direct else (RA, DA)
        return tuple(action for action in last_resorts if action not in dead)[:1]

    def _legal(self, state: PathState) -> Sequence[str]:
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
            ends = self.early_sa or not state.pending or not goes_on
            return (*((QT,) if goes_on else ()), *((SA,) if ends else ()))
        if state.pending and may_ask:
            return (RA, SA) if self.early_sa and state.history else (RA,)
        return (SA,)
