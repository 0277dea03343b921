"""Self-RAG with any model that writes: its sentences are judged by a scorer, one passage in each prompt."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from askance.core.ports import Run
from askance.core.types import GenerateRequest, Generation, Hit, Key, Prompt, Question, Sampling, Until, Want
from askance.methods.prompts import STOPS, answer_prompt
from askance.methods.reflection_tokens import Distribution
from askance.methods.selfrag_judging import judged, onward_of, relevance_of, with_support
from askance.methods.selfrag_scorers import ReflectionScorer
from askance.methods.selfrag_segments import Action, Path, Segment, fitting
from askance.text.answers import AnswerEnd, has_answer
from askance.text.sentences import SentenceEnd
from askance.tree.abreast import both

if TYPE_CHECKING:
    from askance.methods.selfrag import Selfrag


class PromptedWriter:
    """Writes with the prompt that all methods here share, the passage in use in it."""

    def __init__(self, selfrag: "Selfrag", question: Question, run: Run, scorer: ReflectionScorer) -> None:
        self._selfrag, self._question, self._run, self._scorer = selfrag, question, run, scorer

    async def begin(self) -> tuple[Path, Distribution]:
        return Path(), await self._scorer.retrieve("", (), key=("decide",))

    async def write(self, path: Path, action: Action, hit: Hit | None, *, key: Key, whole: bool) -> Segment:
        passage = hit if action == "retrieve" else path.in_use if action == "continue" else None
        max_tokens = self._selfrag.max_tokens
        until: Until = AnswerEnd(path.written) if whole else SentenceEnd()
        writing = self._run.model.generate(
            GenerateRequest(
                self._prompt(path.written, passage, max_tokens),
                Sampling(max_tokens, stop=STOPS),
                Want(logprob=self._selfrag.use_seqscore),
                until,
                key=key,
            )
        )
        judging = relevance_of(self._selfrag, self._scorer, passage if action == "retrieve" else None, key)
        (written,), relevance = await both(writing, judging)
        segment = Segment(
            written.text,
            action,
            passage,
            sequence_score=_sequence_score(written),
            is_last=written.finish in ("end", "stop") or has_answer(path.written + written.text),
            finish=written.finish,
        )
        return await judged(self._selfrag, self._scorer, path, segment, key, whole=whole, relevance=relevance)

    async def judge(self, path: Path, segment: Segment, *, key: Key) -> Segment:
        return await with_support(self._scorer, path, segment, key)

    async def onward(self, path: Path, *, key: Key) -> Distribution:
        return await onward_of(self._selfrag, self._scorer, path, key)

    async def utility(self, path: Path) -> Distribution:
        key = (*path.name.split("."), "utility")
        return await self._scorer.utility(" ".join(path.written.split()), key=key)

    async def options(self, path: Path, hit: Hit, options: tuple[str, ...]) -> tuple[float, ...]:
        begun = path.written + self._selfrag.wording.elicitation
        spaced = [f" {option}" for option in options]
        longest = max(len(self._run.model.tokenize(option)) for option in spaced)
        scores = await self._run.model.score(self._prompt(begun, hit, longest), spaced)
        return tuple(each.logprob / each.num_tokens for each in scores)

    def _prompt(self, so_far: str, hit: Hit | None, max_tokens: int) -> Prompt:
        selfrag, model = self._selfrag, self._run.model

        def prompt_with(*hits: Hit) -> Prompt:
            return answer_prompt(model, self._question, hits, so_far, selfrag.layout, selfrag.wording)

        return fitting(self._run, model, prompt_with, hit, max_tokens) if hit else prompt_with()


def _sequence_score(written: Generation) -> float:
    logprobs: Sequence[float] = [token.logprob or 0.0 for token in written.tokens]
    return math.exp(sum(logprobs) / len(logprobs)) if logprobs else 0.0
