"""The parameters of AirRAG, including its actions, and the rules that follow from them alone."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from askance.core.errors import ParameterError, UnknownName
from askance.core.parameters import Parameters, checked_dataclass, parameter
from askance.core.ports import Method
from askance.core.types import Sampling
from askance.methods.airrag.prompts import OWN, QUERY_STOPS, AirragPromptTemplate
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, PathState
from askance.methods.airrag.verifiers import Verifier
from askance.methods.common.named_methods import Members, NamedMethods
from askance.methods.common.prompts import STOPS

FULL, LITE, DIRECT = (SAY, DA, RA, QT, SA), (RA, QT, SA), (DA,)
SETS = (FULL, (SAY, RA, QT, SA), LITE, DIRECT)
"""The allowed sets of AirRAG's own actions."""


@dataclass(frozen=True, slots=True, repr=False)
class Actions(Members):
    """The actions that a path may take.

    Attributes:
        own: One of `SETS`: all five actions of AirRAG, all but the direct answer, the actions of AirRAG-Lite,
            or only the direct answer, which is the paper's zero-shot question answering.

    Raises:
        ParameterError: The set is not one of `SETS`, or a method is named twice.
    """

    named: NamedMethods = ()
    own: tuple[str, ...] = FULL

    def __post_init__(self) -> None:
        if self.own not in SETS:
            sets = "; ".join(",".join(each) for each in SETS)
            raise ParameterError(
                f"parameter actions={str(self)!r} of method airrag: no path can be made of "
                f"{','.join(self.own) or 'nothing'}. Give one of these sets, and other methods after it "
                f"if you like: {sets}."
            )
        Members.__post_init__(self)

    @property
    def is_lite(self) -> bool:
        """Return whether the actions are those of AirRAG-Lite, which has no system analysis."""
        return self.own == LITE

    @property
    def is_direct(self) -> bool:
        """Return whether a direct answer, which never searches, is AirRAG's only own action."""
        return self.own == DIRECT


def read_actions(text: str, methods: Iterable[str], make: Callable[[str], Method]) -> Actions:
    """Parse a comma-separated list of actions, such as ``say,da,ra,qt,sa,dragin``.

    Args:
        make: Returns the method of a given name, with its default parameters.

    Raises:
        UnknownName: A name is neither an action nor a method.
        ParameterError: The actions can't form a path, or a name is given twice.
    """
    names, known = [name.strip().lower() for name in text.split(",")], tuple(methods)
    for name in names:
        if name not in (*FULL, *known):
            raise UnknownName("action", name, (*FULL, *known), place=f"in actions={text!r}")
    own = tuple(name for name in names if name in FULL)
    ordered = next((each for each in SETS if sorted(each) == sorted(own)), own)
    return Actions(tuple((name, make(name)) for name in names if name not in FULL), ordered)


ALL, WITHOUT_ANALYSIS = Actions(), Actions(own=LITE)


@checked_dataclass()
class AirragParameters(Parameters):
    """The parameters of AirRAG."""

    rollouts: int = parameter(1, "number of rollouts", at_least=1)
    samples: int = parameter(
        1, "replies of SAY and QT to sample at once; the one most like all others is tried first", at_least=1
    )
    answer_samples: int = parameter(1, "replies of RA, SA and DA to sample at once", at_least=1)
    q_div: float = parameter(
        0.0, "how far SAY and QT move from temperature and top_p towards 1 and 1", at_least=0, at_most=1
    )
    temperature: float = parameter(0.7, "sampling temperature of all replies but the verifier's", at_least=0)
    top_p: float = parameter(0.8, "probability mass to sample from", at_least=0.01, at_most=1)
    top_k: int = parameter(50, "tokens to sample from; 0: all", at_least=0)
    passages: int = parameter(
        3, "passages for a sub-query; 0: as many as l_max and the window have room for", at_least=0
    )
    l_max: int | None = parameter(
        None, "maximum number of input tokens of all calls of a question; none: no limit", at_least=1
    )
    search: Literal["tree", "paths"] = parameter(
        "tree", "rollouts extend one tree, or each is a path of its own, drawn independently of the others"
    )
    verifier: Verifier = parameter(
        "sa",
        "how to choose the answer: a call that sees all answers, common words, vectors, a vote, or a reward "
        "model",
    )
    reward: Literal["consistency", "rm"] = parameter(
        "consistency", "reward of a path during the search: common words, or a reward model"
    )
    exploration: float = parameter(2.0, "exploration weight of UCT", at_least=0)
    wave: int = parameter(4, "rollouts that run concurrently", at_least=1)
    stop_lead: float = parameter(
        0.0,
        "stop the search once the leading answer has so many votes more than any other, or with "
        "verifier=vote once no other can overtake it; 0: never",
        at_least=0,
    )
    actions: Actions = parameter(ALL, "actions that a path may take: its own, and other methods by name")
    most_iterations: int = parameter(4, "most RA steps, and most QT steps, of a path", at_least=1)
    max_tokens: int = parameter(
        256, "maximum number of new tokens of a reply; half as many of SA and DA", at_least=2
    )
    prompts: AirragPromptTemplate = parameter(OWN, "prompt template: a packaged set, or a file")

    @property
    def is_judged(self) -> bool:
        """Return whether a reward model scores the paths. The answering model may be that reward model."""
        return self.verifier in ("rm", "rm_vote") or self.reward == "rm"

    @property
    def has_direct_candidate(self) -> bool:
        """Return whether a direct answer is a candidate in addition to the answers of the paths."""
        return DA in self.actions.own and not self.actions.is_direct

    def sampling(self, action: str, *, is_chat: bool = False) -> Sampling:
        """Return the sampling options of an action.

        The stop strings end a reply before any question that the model invents.
        """
        lists_queries = action in (SAY, QT)
        shift = self.q_div if lists_queries else 0.0
        return Sampling(
            self.max_tokens // 2 if action in (SA, DA) else self.max_tokens,
            temperature=self.temperature + shift * (1 - self.temperature),
            top_p=self.top_p + shift * (1 - self.top_p),
            top_k=self.top_k,
            stop=(QUERY_STOPS if lists_queries else ()) if is_chat else STOPS,
        )

    def actions_after(self, state: PathState, dead: Collection[str] = ()) -> tuple[str, ...]:
        """Return the legal actions in a state (the paper's figure 2 and appendix), without the dead ones.

        If no action is left, SA is legal as a last resort. A path without answered sub-queries has nothing to
        summarise, so its last resort is RA, or DA if RA is dead. In all other states, DA is legal only if it
        is AirRAG's only own action (see `has_direct_candidate` for direct answers beside the paths).
        """
        if state.answer is not None:
            return ()
        left = tuple(action for action in self._legal(state) if action not in dead)
        if left:
            return left
        last_resorts = (SA,) if state.history else () if self.actions.is_direct else (RA, DA)
        return tuple(action for action in last_resorts if action not in dead)[:1]

    def _legal(self, state: PathState) -> Sequence[str]:
        if not state.steps:
            actions = self.actions
            first = (DA,) if actions.is_direct else (RA, QT) if actions.is_lite else (SAY,)
            return (*first, *actions.names)
        if state.last_action == SAY:
            return (RA, QT)
        if state.num_repeats > 1:
            return (SA,)
        if state.last_action == QT:
            return (RA,) if state.pending else (SA,)
        if max(state.count(RA), state.count(QT)) >= self.most_iterations:
            return (SA,)
        return (QT,) if state.pending else (QT, SA)
