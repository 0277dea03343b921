"""The least work that model calls need on any runtime."""

from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.types import Sampling, TokenIds


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model.

    Attributes:
        question: The id of the question that the call was made for.
        written: The token ids of each text that was generated after the first prompt.
        sampling: The sampling of these texts; None if there are none.
        began, ended: The times of the call, in seconds.
    """

    question: str
    prompts: Sequence[TokenIds]
    written: Sequence[TokenIds]
    sampling: Sampling | None
    began: float
    ended: float

    @property
    def num_passes(self) -> int:
        """The number of sequential passes, without the prompt's last pass, which yields the first token."""
        return max((len(ids) - 1 for ids in self.written if ids), default=0)


class TextTree:
    """A tree of texts as token ids, in which common prefixes are stored once."""

    def __init__(self) -> None:
        self._root: dict[int, object] = {}

    def add(self, ids: Sequence[int]) -> int:
        """Add a text, and return how many of its tokens no earlier text has after the same prefix."""
        node, number = self._root, 0
        for id in ids:
            if id not in node:
                node[id] = {}
                number += 1
            node = node[id]  # type: ignore[assignment]
        return number


@dataclass(frozen=True, slots=True)
class Work:
    """The work that calls need.

    Attributes:
        prompt_tokens: The number of prompt tokens to compute. A prefix that an earlier prompt or generated
            text has too does not count, because its keys and values are already computed.
        critical_passes: The number of passes that must run one after another.
        passes: The number of passes if no two texts shared a pass.
        depth: The mean number of tokens before a generated token.
    """

    prompt_tokens: int
    critical_passes: int
    passes: int
    depth: float

    @classmethod
    def of(cls, calls: Sequence[Call]) -> "Work":
        """Return the work that calls need if they start from an empty cache.

        Args:
            calls: The calls, in the order in which they ended.
        """
        tree, prompt_tokens, passes, before = TextTree(), 0, 0, 0.0
        for call in calls:
            prompt_tokens += sum(map(tree.add, call.prompts))
            for ids in filter(None, call.written):
                tree.add((*call.prompts[0], *ids[:-1]))  # the last token is not fed to the model
                passes += len(ids) - 1
                before += (len(ids) - 1) * (len(call.prompts[0]) + len(ids) / 2)
        questions = {call.question for call in calls}
        critical = (_critical([each for each in calls if each.question == one]) for one in questions)
        return cls(prompt_tokens, max(critical, default=0), passes, before / max(1, passes))

    @property
    def num_texts(self) -> float:
        """The mean number of texts that are generated at the same time."""
        return self.passes / max(1, self.critical_passes)


def _critical(calls: Sequence[Call]) -> int:
    """Return the number of passes in the longest chain of calls for one question that do not overlap in time.

    The real dependencies between calls are unknown, so a chain may contain independent calls by chance.
    """
    until: list[tuple[float, int]] = []
    for call in calls:
        before = max((number for ended, number in until if ended <= call.began), default=0)
        until.append((call.ended, before + call.num_passes))
    return max((number for _, number in until), default=0)
