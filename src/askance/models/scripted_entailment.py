"""A judge of entailment without weights, for tests and for trying out."""

from collections.abc import Callable

from askance.text.linguistics import content_words


def shares_words(premise: str, claim: str) -> bool:
    """Whether every content word of `claim` is in `premise`."""
    return content_words(claim) <= content_words(premise)


class ScriptedEntailment:
    """An `Entailment` of a rule instead of weights.

    Args:
        judge: of premise and claim; shared words by default, which is far from entailment.
    """

    def __init__(self, judge: Callable[[str, str], bool] = shares_words, *, name: str = "scripted") -> None:
        self.name = name
        self.asked: list[tuple[str, str]] = []
        self._judge = judge

    async def entails(self, premise: str, claim: str) -> bool:
        self.asked.append((premise, claim))
        return self._judge(premise, claim)
