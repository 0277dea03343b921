"""The least work that model calls need on any runtime."""

from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.types import Sampling, TokenIds


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model.

    Attributes:
        question: The question that it was made for.
        prompts: The token ids of the prompts.
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
        """The number of sequential passes; the first token comes from the prompt's last pass."""
        return max((len(ids) - 1 for ids in self.written if ids), default=0)


class TextTree:
    """A tree of texts as token ids, in which common prefixes are stored once."""

    def __init__(self) -> None:
        self._root: dict[int, object] = {}

    def add(self, ids: Sequence[int]) -> int:
        """Add a text; return the number of its tokens that no earlier text has after the same prefix."""
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
        prompt_tokens: The prompt tokens to compute. Prefixes of earlier prompts or generated texts do
            not count, because their keys and values exist.
        critical_passes: The passes that must run one by one.
        passes: The passes of all texts, if each text had its own passes.
        depth: The mean number of tokens before a generated one.
    """

    prompt_tokens: int
    critical_passes: int
    passes: int
    depth: float

    @classmethod
    def of(cls, calls: Sequence[Call]) -> "Work":
        """Return the work of calls, in the order in which they ended, starting from an empty cache."""
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
    """Return the number of passes in the longest chain of one question's calls, none of which overlap.

    The real dependencies of calls are not known, so independent calls may be in one chain by chance.
    """
    until: list[tuple[float, int]] = []
    for call in calls:
        before = max((number for ended, number in until if ended <= call.began), default=0)
        until.append((call.ended, before + call.num_passes))
    return max((number for _, number in until), default=0)
