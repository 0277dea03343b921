"""A reward model that estimates the probability that an AirRAG path is right (Feng et al. 2025).

The paper trains a reward model on paths with known answers. Here, a reward model is one of these:

- a language model that can score options. It sees the question and the path, and the reward is
  P(Yes) / (P(Yes) + P(No)). The text of the prompt is our own.
- a sequence classifier ("pair"), which sees the question and the path as a pair of texts.
- a model that sees numbers about the path ("features", see `path_features`), and possibly the pairs of a
  sub-query and its best passage.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from askance.core.ports import ScoresFeatures
from askance.core.token_ledger import BudgetedModel, NoRoom, TokenLedger
from askance.core.types import PAIR_LABELS, Hit, Prompt, Raw, untrusted
from askance.methods.airrag.path_features import AnswerSupport, JudgedPath, Retrieval, path_features
from askance.methods.airrag.prompts import PromptBuilder
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, ActionStep, PathState
from askance.methods.common.label_probabilities import label_options, label_probabilities, softmax
from askance.methods.common.prompts import passage_text

PASSAGE_TOKENS = 128
"""The maximum number of tokens shown of each passage."""
_PASSAGE_CHARACTERS = 512
"""The same for a sequence classifier, which has no tokenizer for single texts."""
PASSAGE = "Passage"
"""The word before a passage in the prompt."""
VERDICTS = ("Yes", "No")
"""The verdicts that the reward model chooses between."""
_LABELS = {SAY: "Plan", RA: "Found", QT: "Next", SA: "Answer", DA: "Answer"}


@dataclass(slots=True)
class PathRewardModel:
    """The reward model for one question, with a cache of its rewards.

    Attributes:
        ledger: The token budget of the reward calls; None if these calls spend the budget of their rollout.
        judges_steps: Whether unfinished paths are judged, too. The reward of a path is then the least of the
            rewards after each of its steps.
        num_input: The number of input tokens that the reward calls have spent.
    """

    prompts: PromptBuilder
    ledger: TokenLedger | None = None
    judges_steps: bool = False
    num_input: int = 0
    _rewards: dict[object, float] = field(default_factory=dict)
    _states: dict[tuple[ActionStep, ...], PathState] = field(default_factory=dict)
    _evidence: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def uses_features(self) -> bool:
        """Return whether the model judges numbers about a path."""
        return "features" in self.prompts.model.capabilities

    def reward(self, state: PathState, support: AnswerSupport | None = None) -> float:
        """Return the reward of a path, or 0 if there was no budget to judge the path.

        Args:
            support: How far the answers that were found agree with the path's answer; None if it has none.
        """
        parts = range(1, len(state.steps))
        if self.uses_features:
            known = (self._states.get(state.steps[:end]) for end in parts if self.judges_steps)
            before = [self._by_features(each, None) for each in known if each is not None]
            return min([self._by_features(state, support), *before])
        before = [self._rewards[state.key[:end]] for end in parts if state.key[:end] in self._rewards]
        return min([self._rewards.get(state.key, 0.0), *before])

    async def judge(
        self, states: Iterable[PathState], budget: TokenLedger, keep: Callable[[PathState], Awaitable[int]]
    ) -> None:
        """Make the calls that the rewards of new states need.

        Args:
            budget: The token budget of their rollout, which pays for the calls unless `ledger` is set.
            keep: Returns the number of tokens that a state needs to finish its path. An unfinished state is
                judged only if the budget has room for these tokens, too.
        """
        budget = self.ledger or budget
        for state in states:
            before = budget.num_spent
            if self.uses_features:
                await self._judge_evidence(state, budget, await keep(state))
            elif state.answer is not None or (
                self.judges_steps and budget.fits(await self.count(state, 0) + await keep(state))
            ):
                reward = await self._judged(state, budget)
                # Rollouts may reach paths that differ only in punctuation, and their order must not matter.
                self._rewards[state.key] = max(reward, self._rewards.get(state.key, 0.0))
            self.num_input += budget.num_spent - before

    async def count(self, state: PathState, num_more: int) -> int:
        """Return the number of input tokens needed to judge a path that will grow by `num_more` tokens."""
        model = self.prompts.model
        if self.uses_features:
            return 0
        prompt = await self.prompt(state)
        options = () if "pair" in model.capabilities else label_options(prompt, VERDICTS)
        num_options = sum(len(model.tokenize(option)) for option in options)
        return await model.count(prompt) + num_options + num_more

    async def prompt(self, state: PathState, *, with_passages: bool = True) -> Prompt:
        """Return the prompt that shows the steps of a path.

        If `with_passages` is true, the best passage of each retrieval is shown as well. A sequence classifier
        would lose the end of a prompt that is too long, so its prompt loses passages and first steps instead.
        """
        if "pair" not in self.prompts.model.capabilities:
            return self.prompts.judge(tuple(self._steps(state, with_passages)))
        model, steps = self.prompts.model, tuple(self._steps(state, with_passages=False))
        shorter = [tuple(self._steps(state, True)), *(steps[start:] for start in range(len(steps)))]
        pairs = [self._pair(each) for each in shorter[not with_passages :]]
        for pair in pairs:
            if await model.count(pair) < model.context_tokens:
                break
        return pair

    def _pair(self, steps: Iterable[tuple[str, str]]) -> Raw:
        text = "\n".join(f"{label}: {output}" for label, output in steps)
        return Raw((untrusted(self.prompts.question.text),), (untrusted(text),))

    async def _judged(self, state: PathState, budget: TokenLedger) -> float:
        model = BudgetedModel(self.prompts.model, budget)
        for with_passages in (True, False):
            prompt = await self.prompt(state, with_passages=with_passages)
            with suppress(NoRoom):
                if "pair" in model.capabilities:
                    return softmax([each.logprob for each in await model.score(prompt, PAIR_LABELS)])[0]
                probability, _ = await label_probabilities(model, prompt, VERDICTS)
                return probability
        return 0.0

    async def _judge_evidence(self, state: PathState, budget: TokenLedger, keep: int) -> None:
        """Register a state, and score the best passage of its last step if this is a retrieval."""
        self._states[state.steps] = state
        hits = state.found[-1] if state.last_action == RA else ()
        if "pair" not in self.prompts.model.capabilities or not hits:
            return
        model, (query, hit) = BudgetedModel(self.prompts.model, budget), _retrieval(state, -1)
        pair = Raw((untrusted(query),), (untrusted(hit.passage.titled_text),))
        if budget.fits(await model.count(pair) + keep):
            relevant, irrelevant = await model.score(pair, PAIR_LABELS)
            self._evidence[query, hit.passage.id] = relevant.logprob - irrelevant.logprob

    def _by_features(self, state: PathState, support: AnswerSupport | None) -> float:
        retrievals = list[Retrieval]()
        for index, (pair, hits) in enumerate(zip(state.history, state.found, strict=True)):
            hit = evidence = None
            if hits:
                query, hit = _retrieval(state, index)
                evidence = self._evidence.get((query, hit.passage.id))
            retrievals.append(Retrieval(pair.question, pair.answer, hit, evidence))
        path = JudgedPath(
            self.prompts.question.text,
            retrievals,
            next((step.text for step in state.steps if step.action == SAY), None),
            state.num_repeats,
            state.share,
            state.answer if support is not None else None,
            support,
        )
        assert isinstance(self.prompts.model, ScoresFeatures)
        return self.prompts.model.probability(path_features(path))

    def _steps(self, state: PathState, with_passages: bool) -> Iterator[tuple[str, str]]:
        pairs, retrievals = iter(state.history), iter(state.found)
        for step in state.steps:
            output = step.text
            if step.action == RA:
                pair, hits = next(pairs), next(retrievals)
                if hits and with_passages:
                    yield PASSAGE, self._shown_passage(passage_text(hits[0].passage))
                output = f"{pair.question} {pair.answer}"
            yield step_label(step.action), output

    def _shown_passage(self, text: str) -> str:
        model = self.prompts.model
        if "pair" in model.capabilities:
            return text[:_PASSAGE_CHARACTERS]
        return model.decode(model.tokenize(text)[:PASSAGE_TOKENS])


def _retrieval(state: PathState, index: int) -> tuple[str, Hit]:
    """Return the sub-query of a retrieval on one line, and its best passage."""
    return " ".join(state.history[index].question.split()), state.found[index][0]


def step_label(action: str) -> str:
    """Return the word before a step in the prompt; the steps of other methods are answers."""
    return _LABELS.get(action, "Answer")
