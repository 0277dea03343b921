"""How likely a path of AirRAG leads to the right answer, by a reward model (Feng et al. 2025).

The paper trains one on paths with known answers. Any model that scores options can take the role: it is shown
the question and the path, and the probability of `Yes` against `No` is the path's reward. The words are ours.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from askance.core.token_ledger import BudgetedModel, NoRoom, TokenLedger
from askance.core.types import Prompt
from askance.methods.airrag.prompts import Prompts
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, PathState
from askance.methods.common.label_probabilities import label_options, label_probabilities
from askance.methods.common.prompts import passage_text

PASSAGE_TOKENS = 128
"""What is shown of a passage."""
_OPTIONS = ("Yes", "No")
_LABELS = {SAY: "Plan", RA: "Found", QT: "Next", SA: "Answer", DA: "Answer"}


@dataclass(slots=True)
class PathJudge:
    """The reward model, for one question; it remembers what it said.

    Attributes:
        prompts: those for the model that judges.
        ledger: what its calls are paid from; None where each rollout pays for its own.
        num_input: tokens it has read.
    """

    prompts: Prompts
    ledger: TokenLedger | None = None
    num_input: int = 0
    _rewards: dict[object, float] = field(default_factory=dict)

    def reward(self, state: PathState) -> float:
        """The reward of a path that was judged; 0 for one that there was no room for."""
        return self._rewards.get(state.key, 0.0)

    async def judge(self, states: Iterable[PathState], allowance: TokenLedger) -> None:
        """Find the rewards of paths that have ended, within the allowance of their rollout."""
        allowance = self.ledger or allowance
        for state in states:
            before = allowance.num_spent
            reward = await self._judged(state, allowance)
            self.num_input += allowance.num_spent - before
            # Two rollouts may come to paths that differ in punctuation alone; which is first must not matter.
            self._rewards[state.key] = max(reward, self.reward(state))

    def count(self, state: PathState, num_more: int) -> int:
        """Tokens that judging a path takes which gets `num_more` tokens longer."""
        model, prompt = self.prompts.model, self.prompt(state)
        options = label_options(prompt, _OPTIONS)
        return model.count(prompt) + sum(len(model.tokenize(option)) for option in options) + num_more

    def prompt(self, state: PathState, *, with_passages: bool = True) -> Prompt:
        """A path's steps, each retrieval with its best passage."""
        return self.prompts.judge(tuple(self._steps(state, with_passages)))

    async def _judged(self, state: PathState, allowance: TokenLedger) -> float:
        model = BudgetedModel(self.prompts.model, allowance)
        for with_passages in (True, False):
            prompt = self.prompt(state, with_passages=with_passages)
            with suppress(NoRoom):
                likely, _ = await label_probabilities(model, prompt, _OPTIONS)
                return likely
        return 0.0

    def _steps(self, state: PathState, with_passages: bool) -> Iterator[tuple[str, str]]:
        model = self.prompts.model
        pairs, retrievals = iter(state.history), iter(state.found)
        for step in state.steps:
            said = "; ".join(step.said) or "None"
            if step.action == RA:
                pair, hits = next(pairs), next(retrievals)
                if hits and with_passages:
                    ids = model.tokenize(passage_text(hits[0].passage))[:PASSAGE_TOKENS]
                    yield "Passage", model.decode(ids)
                said = f"{pair.question} {pair.answer}"
            yield _LABELS.get(step.action, "Answer"), said
