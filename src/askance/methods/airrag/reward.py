"""How likely a path of AirRAG leads to the right answer, by a reward model (Feng et al. 2025).

The paper trains one on paths with known answers. Any model that scores options can take the role: it is shown
the question and the path, and the probability of `Yes` against `No` is the path's reward. The words are ours.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from askance.core.ports import Model
from askance.core.types import Chat, Prompt, Question, Raw, Span, Turn, untrusted
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, State
from askance.methods.airrag.wording import OWN, AirragWording
from askance.methods.budget import Allowance, AllowedModel, NoRoom
from askance.methods.prompts import passage_text, question_spans

PASSAGE_TOKENS = 128
"""What is shown of a passage."""
OPTIONS = ("Yes", "No")


@dataclass(slots=True)
class Judge:
    """The reward model, for one question; it remembers what it said.

    Attributes:
        num_input: tokens it has read.
    """

    model: Model
    question: Question
    words: AirragWording = OWN
    num_input: int = 0
    _rewards: dict[object, float] = field(default_factory=dict)

    def reward(self, state: State) -> float:
        """The reward of a path that was judged; 0 for one that there was no room for."""
        return self._rewards.get(state.key, 0.0)

    async def judge(self, states: Iterable[State], allowance: Allowance) -> None:
        """Find the rewards of paths that have ended."""
        for state in states:
            reward = await self._judged(state, allowance)
            # Two rollouts may come to paths that differ in punctuation alone; which is first must not matter.
            self._rewards[state.key] = max(reward, self.reward(state))

    def count(self, state: State, num_more: int) -> int:
        """Tokens that judging a path takes which gets `num_more` tokens longer."""
        prompt = path_prompt(self.model, self.question, state, words=self.words)
        return self.model.count(prompt) + self._num_options(prompt) + num_more

    async def _judged(self, state: State, allowance: Allowance) -> float:
        for with_passages in (True, False):
            prompt = path_prompt(
                self.model, self.question, state, with_passages=with_passages, words=self.words
            )
            before = allowance.num_input
            try:
                yes, no = await AllowedModel(self.model, allowance).score(prompt, _options(prompt))
            except NoRoom:
                continue
            self.num_input += allowance.num_input - before
            return _share(yes.logprob, no.logprob)
        return 0.0

    def _num_options(self, prompt: Prompt) -> int:
        return sum(len(self.model.tokenize(option)) for option in _options(prompt))


def path_prompt(
    model: Model,
    question: Question,
    state: State,
    *,
    with_passages: bool = True,
    words: AirragWording = OWN,
) -> Prompt:
    """Whether a path leads to the right answer: its steps, each retrieval with its best passage."""
    parts = [Span("Question: "), *question_spans(question), Span("\n"), *_steps(model, state, with_passages)]
    if "chat" in model.capabilities:
        asked = Turn("user", (Span(f"{words.judge}\n\n"), *parts))
        return Chat((Turn("system", (Span(SYSTEM),)), asked))
    return Raw((Span(f"{SYSTEM} {words.judge}\n\n"), *parts, Span("Judgement:")))


def _steps(model: Model, state: State, with_passages: bool) -> list[Span]:
    spans: list[Span] = []
    pairs, retrievals = iter(state.history), iter(state.found)
    for step in state.steps:
        said = "; ".join(step.said) or "None"
        if step.action == RA:
            pair, hits = next(pairs), next(retrievals)
            if hits and with_passages:
                ids = model.tokenize(passage_text(hits[0].passage))[:PASSAGE_TOKENS]
                spans += [Span("Passage: "), _line(model.decode(ids))]
            said = f"{pair.question} {pair.answer}"
        spans += [Span(f"{_LABELS.get(step.action, 'Answer')}: "), _line(said)]
    return spans


def _line(text: str) -> Span:
    return untrusted(" ".join(text.split()) + "\n")


def _options(prompt: Prompt) -> tuple[str, ...]:
    return OPTIONS if isinstance(prompt, Chat) else tuple(f" {option}" for option in OPTIONS)


def _share(yes: float, no: float) -> float:
    most = max(yes, no)
    if math.isinf(most):
        return 0.0
    weights = math.exp(yes - most), math.exp(no - most)
    return weights[0] / sum(weights)


_LABELS = {SAY: "Plan", RA: "Found", QT: "Next", SA: "Answer", DA: "Answer"}

SYSTEM = "You judge how questions are being answered."
