"""What Self-RAG writes and judges: segments, and paths of them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from askance.core.ports import Model, Run
from askance.core.types import Hit, Key, Prompt, TokenIds
from askance.methods.selfrag.scores import relevance_score, support_score, utility_score
from askance.methods.selfrag.tokens import FULLY, Distribution

if TYPE_CHECKING:
    from askance.methods.selfrag import Selfrag

P = TypeVar("P", bound=Prompt)
Action = Literal["retrieve", "continue", "none", "lead"]
"""How a segment begins: with a passage, with the one in use, without any, or before any decision."""


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A piece of an answer, as a rule a sentence, and what was judged of it.

    Attributes:
        written: as it goes into the next prompt, without control tokens.
        hit: the passage it was written with, its own or the one in use; None without one.
        ids: as the model wrote it, control tokens included; empty where a prompt of words is used.
        relevance, support, utility: of this segment, empty where not judged.
        labels: the tokens that were chosen: written by the model, or the likeliest of a judgement.
        onward: the retrieve tokens' probabilities at its end.
        sequence_score: geometric mean of the probabilities of its tokens.
        is_last: the answer is over behind it.
        is_judged: nothing is missing that its score depends on; otherwise its support is.
        finish: what ended it, as in `Generation`.
    """

    written: str
    action: Action
    hit: Hit | None = None
    ids: TokenIds = ()
    relevance: Distribution = field(default_factory=dict)
    support: Distribution = field(default_factory=dict)
    utility: Distribution = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    onward: Distribution = field(default_factory=dict)
    sequence_score: float = 0.0
    is_last: bool = False
    is_judged: bool = True
    finish: str = ""

    @property
    def text(self) -> str:
        """Its words on one line."""
        return " ".join(self.written.split())


START = "0"
"""The name of the path that all others begin with."""


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """An answer on its way.

    Attributes:
        name: its place in the tree: the number of each segment among those tried beside it, from 1.
        scores: of the segments that were written with a passage of their own.
        utility: of the whole, empty where not judged yet.
        onward: the retrieve tokens' probabilities at its end.
    """

    segments: tuple[Segment, ...] = ()
    name: str = START
    scores: tuple[float, ...] = ()
    utility: Distribution = field(default_factory=dict)
    onward: Distribution = field(default_factory=dict)
    is_finished: bool = False

    @property
    def written(self) -> str:
        """All text, as it was written."""
        return "".join(segment.written for segment in self.segments)

    @property
    def in_use(self) -> Hit | None:
        """The passage that was used last."""
        used = (segment.hit for segment in reversed(self.segments) if segment.action == "retrieve")
        return next(used, None)

    def then(self, segment: Segment, number: int) -> "Path":
        """The path with one more segment, the `number`-th of those tried."""
        return replace(self, segments=(*self.segments, segment), name=f"{self.name}.{number}")


class Writer(Protocol):
    """Writes segments of one answer."""

    async def begin(self) -> tuple[Path, Distribution]:
        """The empty path, perhaps with what the model wrote before it decided; and the decision's numbers."""
        ...

    async def write(self, path: Path, action: Action, hit: Hit | None, *, key: Key, whole: bool) -> Segment:
        """One more segment of `path`, its support perhaps not judged; with `whole`, all the rest, judged."""
        ...

    async def judge(self, path: Path, segment: Segment, *, key: Key) -> Segment:
        """`segment`, written behind `path`, judged, if it was not."""
        ...

    async def onward(self, path: Path, *, key: Key) -> Distribution:
        """The retrieve tokens' probabilities at the end of a path with a segment."""
        ...

    async def utility(self, path: Path) -> Distribution:
        """How useful the answer is as it stands."""
        ...

    async def options(self, path: Path, hit: Hit, options: tuple[str, ...]) -> tuple[float, ...]:
        """The mean log-probability (nats) of each option's tokens as the answer that `hit` gives."""
        ...


def segment_score(selfrag: "Selfrag", segment: Segment) -> float:
    """Equation 4 without the utility, which only whole answers have.

    Support that is not judged yet counts as much as it can: the score is an upper bound then.
    """
    sequence = segment.sequence_score if selfrag.use_seqscore else 0.0
    backing = segment.support if segment.is_judged else _FULL_SUPPORT
    support = selfrag.w_sup * support_score(backing) if selfrag.use_groundness else 0.0
    return sequence + selfrag.w_rel * relevance_score(segment.relevance) + support


_FULL_SUPPORT: Distribution = {FULLY: 1.0}


def answer_score(selfrag: "Selfrag", segment: Segment) -> float:
    """Equation 4 of a segment that is a whole answer."""
    return segment_score(selfrag, segment) + usefulness(selfrag, segment.utility)


def usefulness(selfrag: "Selfrag", utility: Distribution) -> float:
    """What a whole answer's utility adds to its score."""
    return selfrag.w_use * utility_score(utility) if selfrag.use_utility else 0.0


def fitting(run: Run, model: Model, prompt_with: Callable[[Hit], P], hit: Hit, max_tokens: int) -> P:
    """The prompt, its passage cut at its end where the model's window has no room for all of it."""
    prompt = prompt_with(hit)
    room = model.context_tokens - max_tokens
    if model.count(prompt) <= room:
        return prompt
    words = hit.passage.text.split()
    low, high = 0, len(words)  # that many words fit; so many don't
    while high - low > 1:
        middle = (low + high) // 2
        if model.count(prompt_with(_first_words(hit, words[:middle]))) <= room:
            low = middle
        else:
            high = middle
    why = f"the window of {model.context_tokens} tokens has room for {low} of {len(words)} words of a passage"
    run.trace.decide("passage", "cut", why, numbers={"words": low})
    return prompt_with(_first_words(hit, words[:low]))


def _first_words(hit: Hit, words: list[str]) -> Hit:
    return replace(hit, passage=replace(hit.passage, text=" ".join(words)))
