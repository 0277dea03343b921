"""A reward model that estimates the probability that an AirRAG path is right (Feng et al. 2025).

The paper trains a reward model on paths with known answers. Here, any model that can score options may be the
reward model. The model sees the question and the path, and the reward is P(Yes) / (P(Yes) + P(No)). The text
of the prompt is our own.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from askance.core.token_ledger import BudgetedModel, NoRoom, TokenLedger
from askance.core.types import Prompt
from askance.methods.airrag.prompts import PromptBuilder
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, PathState
from askance.methods.common.label_probabilities import label_options, label_probabilities
from askance.methods.common.prompts import passage_text

PASSAGE_TOKENS = 128
"""The maximum number of tokens shown of each passage."""
PASSAGE = "Passage"
"""The word before a passage in the prompt."""
VERDICTS = ("Yes", "No")
"""The verdicts that the reward model chooses between."""
_LABELS = {SAY: "Plan", RA: "Found", QT: "Next", SA: "Answer", DA: "Answer"}


@dataclass(slots=True)
class PathRewardModel:
    """The reward model for one question, with a cache of its rewards.

    Attributes:
        prompts: The prompt builder for the reward model.
        ledger: The token budget of the reward calls; None if these calls spend the budget of their rollout.
        num_input: The number of input tokens that the reward calls have spent.
    """

    prompts: PromptBuilder
    ledger: TokenLedger | None = None
    num_input: int = 0
    _rewards: dict[object, float] = field(default_factory=dict)

    def reward(self, state: PathState) -> float:
        """Return the reward of a path, or 0 if there was no budget to judge the path."""
        return self._rewards.get(state.key, 0.0)

    async def judge(self, states: Iterable[PathState], budget: TokenLedger) -> None:
        """Compute the rewards of finished paths.

        Args:
            budget: The token budget of their rollout, which pays for the calls unless `ledger` is set.
        """
        budget = self.ledger or budget
        for state in states:
            before = budget.num_spent
            reward = await self._judged(state, budget)
            self.num_input += budget.num_spent - before
            # Two rollouts may reach paths that differ only in punctuation, and their order must not matter.
            self._rewards[state.key] = max(reward, self.reward(state))

    def count(self, state: PathState, num_more: int) -> int:
        """Return the number of input tokens needed to judge a path that will grow by `num_more` tokens."""
        model, prompt = self.prompts.model, self.prompt(state)
        options = label_options(prompt, VERDICTS)
        return model.count(prompt) + sum(len(model.tokenize(option)) for option in options) + num_more

    def prompt(self, state: PathState, *, with_passages: bool = True) -> Prompt:
        """Return the prompt that shows the steps of a path.

        If `with_passages` is true, the best passage of each retrieval is shown as well.
        """
        return self.prompts.judge(tuple(self._steps(state, with_passages)))

    async def _judged(self, state: PathState, budget: TokenLedger) -> float:
        model = BudgetedModel(self.prompts.model, budget)
        for with_passages in (True, False):
            prompt = self.prompt(state, with_passages=with_passages)
            with suppress(NoRoom):
                probability, _ = await label_probabilities(model, prompt, VERDICTS)
                return probability
        return 0.0

    def _steps(self, state: PathState, with_passages: bool) -> Iterator[tuple[str, str]]:
        model = self.prompts.model
        pairs, retrievals = iter(state.history), iter(state.found)
        for step in state.steps:
            output = "; ".join(step.output) or "None"
            if step.action == RA:
                pair, hits = next(pairs), next(retrievals)
                if hits and with_passages:
                    ids = model.tokenize(passage_text(hits[0].passage))[:PASSAGE_TOKENS]
                    yield PASSAGE, model.decode(ids)
                output = f"{pair.question} {pair.answer}"
            yield step_label(step.action), output


def step_label(action: str) -> str:
    """Return the word before a step in the prompt; the steps of other methods are answers."""
    return _LABELS.get(action, "Answer")
