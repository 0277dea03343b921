"""What the calls of questions need at the least, whatever computes them."""

from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.types import Sampling, TokenIds


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a model.

    Attributes:
        question: that it was made for.
        prompts: the token ids that were read.
        written: the token ids of each text that was written behind the first of them.
        sampling: how they were written; None if nothing was.
        began, ended: seconds.
    """

    question: str
    prompts: Sequence[TokenIds]
    written: Sequence[TokenIds]
    sampling: Sampling | None
    began: float
    ended: float

    @property
    def num_passes(self) -> int:
        """One after the other: the first token comes from the pass that reads the end of the prompt."""
        return max((len(ids) - 1 for ids in self.written if ids), default=0)


class TextTree:
    """Texts as token ids; what several of them begin with is held once."""

    def __init__(self) -> None:
        self._root: dict[int, object] = {}

    def add(self, ids: Sequence[int]) -> int:
        """Take in a text; the number of its tokens that no text before has in the same place, behind the same
        tokens.
        """
        node, number = self._root, 0
        for id in ids:
            if id not in node:
                node[id] = {}
                number += 1
            node = node[id]  # type: ignore[assignment]
        return number


@dataclass(frozen=True, slots=True)
class Work:
    """What calls needed.

    Attributes:
        prompt_tokens: to be read. What a prompt has in common with another one at its beginning counts once,
            and so does a text that was written: its keys and values are there.
        critical_passes: to be made one after the other.
        passes: of all texts, if none were computed together.
        depth: tokens that stand before a written one, in the mean.
    """

    prompt_tokens: int
    critical_passes: int
    passes: int
    depth: float

    @classmethod
    def of(cls, calls: Sequence[Call]) -> "Work":
        """The work of calls in the order in which they ended, with nothing known before."""
        tree, prompt_tokens, passes, before = TextTree(), 0, 0, 0.0
        for call in calls:
            prompt_tokens += sum(map(tree.add, call.prompts))
            for ids in filter(None, call.written):
                tree.add((*call.prompts[0], *ids[:-1]))  # the last one is not fed
                passes += len(ids) - 1
                before += (len(ids) - 1) * (len(call.prompts[0]) + len(ids) / 2)
        questions = {call.question for call in calls}
        critical = (_critical([each for each in calls if each.question == one]) for one in questions)
        return cls(prompt_tokens, max(critical, default=0), passes, before / max(1, passes))

    @property
    def num_texts(self) -> float:
        """How many texts are written side by side, in the mean."""
        return self.passes / max(1, self.critical_passes)


def _critical(calls: Sequence[Call]) -> int:
    """Passes in the longest chain of one question's calls: each waits for those that ended before it began.

    Which call needs what another one gave is not known. Two of them that had to wait for something else may
    stand in a chain by chance.
    """
    until: list[tuple[float, int]] = []
    for call in calls:
        before = max((number for ended, number in until if ended <= call.began), default=0)
        until.append((call.ended, before + call.num_passes))
    return max((number for _, number in until), default=0)
