"""A reward model that estimates the probability that an AirRAG path is right (Feng et al. 2025).

The paper trains a reward model on paths with known answers. Here, a reward model is one of these:

- a language model that can score options. It sees the question and the path, and the reward is
  P(Yes) / (P(Yes) + P(No)). The text of the prompt is our own.
- a `PairScorer`, which sees the question and the path as a pair of texts.
- a `FeatureScorer`, which sees numbers about the path (see `FEATURES`), and whose `PairScorer` may see each
  sub-query with its best passage. None of the numbers looks at a gold answer. The same functions compute them
  during the search and from a recorded trace, so that a model is trained on what it will see.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean

from askance.core.ports import FeatureScorer, PairScorer
from askance.core.token_ledger import BudgetedModel, NoRoom, TokenLedger
from askance.core.types import Prompt, Question, relevance
from askance.methods.airrag.prompts import PromptBuilder, is_refusal
from askance.methods.airrag.state import DA, QT, RA, SA, SAY, SEPARATOR, Node, PathState
from askance.methods.airrag.verifiers import jcd_scores
from askance.methods.common.prompts import label_options, label_probabilities, passage_text
from askance.text.answers import normalise_answer
from askance.text.support import covered_share

PASSAGE_TOKENS = 128
"""The maximum number of tokens shown of each passage."""
_PASSAGE_CHARACTERS = 512
"""The same for a `PairScorer`, which has no tokenizer for single texts."""
PASSAGE = "Passage"
"""The word before a passage in the prompt."""
VERDICTS = ("Yes", "No")
"""The verdicts that the reward model chooses between."""
_LABELS = {SAY: "Plan", RA: "Found", QT: "Next", SA: "Answer", DA: "Answer"}

Evidence = Mapping[tuple[str, str], float]
"""The log-odds of a cross-encoder that a passage, given by its id, is relevant to a sub-query."""

FEATURES = {
    "finished": "1 if the path has an answer, else 0",
    "jcd": "mean Jaccard similarity of its answer to all answers",
    "equal_share": "share of the votes for answers that equal its answer",
    "path_share": "product of the shares of the samples that led along the path, less the answer's own",
    "last_answer": "1 if its answer equals that of its last RA step, else 0",
    "planned": "sub-queries of the plan; a plan of None leaves the question, and counts as one",
    "plan_coverage": "share of the question's content words that the plan contains",
    "repeats": "QT steps that only repeated queries",
    "retrievals": "RA steps",
    "refusals": "RA steps that say that the passages hold no answer",
    "named": "mean share of the title's words of the best passage that the sub-query contains",
    "supported": "mean share of the words of an RA step's answer that this passage contains",
    "retrieval_score": "mean score of the best passage of each retrieval",
    "evidence": "mean log-odds of a cross-encoder that this passage is relevant to the sub-query",
}
"""The features by name, with their meanings."""


@dataclass(frozen=True, slots=True)
class AnswerSupport:
    """The agreement of all answers that were found with the answer of a path.

    Attributes:
        jcd: The mean Jaccard similarity of the answer to all answers (equation 2).
        equal_share: The share of the votes for equal answers. An answer has as many votes as copies, each
            multiplied by its `path_share`.
        path_share: The product of the shares of the samples that led along the path, up to its last step.
    """

    jcd: float
    equal_share: float
    path_share: float


@dataclass(slots=True)
class PathRewardModel:
    """The reward model for one question, with a cache of its rewards.

    Attributes:
        judge: A scorer, or the builder of the prompts for a language model.
        num_input: The number of input tokens that the reward calls have spent.
    """

    judge: PromptBuilder | PairScorer | FeatureScorer
    question: Question
    num_input: int = 0
    _rewards: dict[object, float] = field(default_factory=dict)
    _evidence: dict[tuple[str, str], float] = field(default_factory=dict)

    def rewards(self, nodes: Sequence[Node]) -> list[float]:
        """Return the reward of each node with an answer, or 0 if there was no budget to judge it.

        Features depend on how far an answer agrees with those of all nodes.
        """
        if not isinstance(self.judge, FeatureScorer):
            return [self._rewards.get(node.state.key, 0.0) for node in nodes]
        answers, votes = [node.answer for node in nodes], [node.state.votes for node in nodes]
        supports = supports_of(answers, votes, [node.path_share for node in nodes])
        return [
            self.judge.probability(path_features(self.question.text, node.state, support, self._evidence))
            for node, support in zip(nodes, supports, strict=True)
        ]

    async def judge_path(self, state: PathState, budget: TokenLedger, keep: int) -> None:
        """Make the calls that the reward of a new state needs.

        Args:
            budget: The token budget of its rollout, which pays for the calls.
            keep: The number of tokens that the state needs to finish its path.
        """
        before = budget.num_spent
        if not isinstance(self.judge, FeatureScorer):
            if state.answer is not None:
                reward = await self._ask(self.judge, state, budget)
                # Rollouts may reach paths that differ only in punctuation, and their order must not matter.
                self._rewards[state.key] = max(reward, self._rewards.get(state.key, 0.0))
        elif self.judge.evidence is not None and state.last_action == RA and state.found[-1]:
            await self._add_evidence(self.judge.evidence, state, budget, keep)
        self.num_input += budget.num_spent - before

    async def count(self, state: PathState, num_more: int) -> int:
        """Return the number of input tokens needed to judge a path that will grow by `num_more` tokens."""
        if isinstance(self.judge, PairScorer):
            return self.judge.count_tokens(*self.pair(self.judge, state)) + num_more
        if isinstance(self.judge, FeatureScorer):
            return 0
        prompt, model = self.prompt(self.judge, state), self.judge.model
        num_options = sum(len(model.tokenize(option)) for option in label_options(prompt, VERDICTS))
        return await model.count(prompt) + num_options + num_more

    def prompt(self, judge: PromptBuilder, state: PathState, *, with_passages: bool = True) -> Prompt:
        """Return the prompt that shows the steps of a path, perhaps with passages."""

        def cut(text: str) -> str:
            return judge.model.decode(judge.model.tokenize(text)[:PASSAGE_TOKENS])

        return judge.judge(tuple(_steps(state, cut if with_passages else None)))

    def pair(self, scorer: PairScorer, state: PathState, *, with_passages: bool = True) -> tuple[str, str]:
        """Return the question and the steps of a path, perhaps with the best passage of each retrieval.

        A scorer would lose the end of a text that is too long, so it loses passages and first steps instead.
        """
        steps = [*_steps(state)]
        shorter = (steps[start:] for start in range(len(steps)))
        shown = [[*_steps(state, lambda text: text[:_PASSAGE_CHARACTERS])]] if with_passages else []
        lines = (map(": ".join, each) for each in (*shown, *shorter))
        pairs = [(self.question.text, "\n".join(each)) for each in lines]
        fitting = (pair for pair in pairs if scorer.count_tokens(*pair) < scorer.max_tokens)
        return next(fitting, pairs[-1])

    async def _ask(self, judge: PromptBuilder | PairScorer, state: PathState, budget: TokenLedger) -> float:
        for with_passages in (True, False):
            with suppress(NoRoom):
                if isinstance(judge, PairScorer):
                    pair = self.pair(judge, state, with_passages=with_passages)
                    budget.spend_call(judge.count_tokens(*pair))
                    (logit,) = await judge.score_pairs([pair])
                    return math.exp(relevance(logit)[0])
                prompt = self.prompt(judge, state, with_passages=with_passages)
                model = BudgetedModel(judge.model, budget)
                return (await label_probabilities(model, prompt, VERDICTS))[0]
        return 0.0

    async def _add_evidence(
        self, scorer: PairScorer, state: PathState, budget: TokenLedger, keep: int
    ) -> None:
        """Score the best passage of the retrieval that is a state's last step."""
        query, hit = state.history[-1].question, state.found[-1][0]
        pair = " ".join(query.split()), hit.passage.titled_text
        num_tokens = scorer.count_tokens(*pair)
        if budget.fits(num_tokens + keep):
            budget.spend_call(num_tokens)
            (logit,) = await scorer.score_pairs([pair])
            self._evidence[query, hit.passage.id] = logit


def _steps(state: PathState, cut: Callable[[str], str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield a label and a text for each step and, if there is a `cut` for them, for the best passages."""
    pairs, retrievals = iter(state.history), iter(state.found)
    for step in state.steps:
        output = step.text
        if step.action == RA:
            pair, hits = next(pairs), next(retrievals)
            if hits and cut is not None:
                yield PASSAGE, cut(passage_text(hits[0].passage))
            output = f"{pair.question} {pair.answer}"
        yield step_label(step.action), output


def step_label(action: str) -> str:
    """Return the word before a step in the prompt; the steps of other methods are answers."""
    return _LABELS.get(action, "Answer")


def supports_of(
    answers: Sequence[str], copies: Sequence[int], path_shares: Sequence[float]
) -> list[AnswerSupport]:
    """Return the support of each valid answer of a question among all of them."""
    votes = [number * share for number, share in zip(copies, path_shares, strict=True)]
    by_answer: dict[str, float] = {}
    for answer, weight in zip(map(normalise_answer, answers), votes, strict=True):
        by_answer[answer] = by_answer.get(answer, 0.0) + weight
    total = sum(votes)
    equal = [by_answer[normalise_answer(answer)] / total for answer in answers]
    return list(map(AnswerSupport, jcd_scores(answers, copies), equal, path_shares))


def path_features(
    question: str, state: PathState, support: AnswerSupport | None, evidence: Evidence
) -> Mapping[str, float | None]:
    """Return the features of a path by name. A number that does not exist for the path is None.

    Args:
        support: The support of the answer of the path; None without a valid answer.
        evidence: The known evidence, which may lack passages.
    """
    plan = next((step.text for step in state.steps if step.action == SAY), None)
    best = [(pair, hits[0]) for pair, hits in zip(state.history, state.found, strict=True) if hits]
    keys = [(pair.question, hit.passage.id) for pair, hit in best]
    ends_with = state.history[-1].answer if state.history and support is not None else None
    return {
        "finished": float(support is not None),
        "jcd": None if support is None else support.jcd,
        "equal_share": None if support is None else support.equal_share,
        "path_share": state.share if support is None else support.path_share,
        "last_answer": None
        if ends_with is None
        else float(normalise_answer(ends_with) == normalise_answer(state.answer or "")),
        "planned": None if plan is None else float(plan.count(SEPARATOR) + 1),
        "plan_coverage": None if plan is None else covered_share(question, "", plan),
        "repeats": float(state.num_repeats),
        "retrievals": float(len(state.history)),
        "refusals": float(sum(is_refusal(pair.answer) for pair in state.history)),
        "named": _mean(covered_share(hit.passage.title, "", pair.question) for pair, hit in best),
        "supported": _mean(
            covered_share(pair.answer, hit.passage.title, hit.passage.text) for pair, hit in best
        ),
        "retrieval_score": _mean(hit.score for _, hit in best),
        "evidence": _mean(evidence[key] for key in keys if key in evidence),
    }


def _mean(values: Iterable[float]) -> float | None:
    kept = [*values]
    return fmean(kept) if kept else None
