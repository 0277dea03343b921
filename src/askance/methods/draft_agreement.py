"""Draft agreement: drafts from memory decide whether to search, and the model judges what it reads.

The method needs chats only: no log-probabilities, no continuation of a text and no scores. Its prompts were
written for this project.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from askance.core.answers import Answer
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Run
from askance.core.token_ledger import NoRoom, has_room
from askance.core.types import GenerateRequest, Hit, Key, Passage, Prompt, Question, Sampling, Span, untrusted
from askance.methods.airrag.prompts import is_refusal
from askance.methods.common import prompts
from askance.methods.common.answer_text import parse_markers
from askance.methods.common.generation_state import GenerationState, WritesAnswer
from askance.methods.common.search import num_fitting
from askance.text.answers import normalise_answer, short_answer

PROMPT = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""The prompt that asks for a verdict: its instruction and worked examples."""
_VERDICT = re.compile(r"\W*(yes(?!.*\bnot?\b)|no)\b\W*", re.IGNORECASE)
"""The beginning of a verdict. A "yes" that is taken back by a "no" or "not" is none."""
_ONE_LINE = Sampling(48, stop=("\n",))
"""The sampling parameters of a verdict with its query."""


@checked_dataclass()
class DraftAgreement(WritesAnswer):
    """Answer from memory if sampled drafts agree, and otherwise search until passages support the answer.

    The model first writes `drafts` answers without passages. If at least the share `agree` of them state the
    same short answer, the first of these is the answer. Otherwise the model answers from the passages found
    for the question, and says whether they support its answer or what to search for next. The passages of
    all searches are read together, in up to `max_rounds` rounds. No query is searched for twice.
    """

    drafts: int = parameter(3, "number of drafts from memory; 0: always search", at_least=0, at_most=20)
    agree: float = parameter(1.0, "share of the drafts that must agree", at_least=0.01, at_most=1)
    draft_temperature: float = parameter(0.7, "sampling temperature of the drafts", at_least=0.01, at_most=2)
    passages: int = parameter(3, "number of passages per search", at_least=1)
    max_rounds: int = parameter(3, "maximum number of searches", at_least=1)

    paper: ClassVar[str] = "none; agreement as in Wang et al. 2022 (self-consistency)"
    searches: ClassVar[str] = "if drafts disagree"
    continues: ClassVar[bool] = False

    async def answer(self, question: Question, run: Run) -> Answer:
        state, trace = self.start(question, run), run.trace
        drafts = await self._write_drafts(state) if self.drafts else []
        counts = Counter(short for _, short in drafts if short)
        common = max(counts, key=counts.__getitem__, default="")
        is_sure = counts[common] >= max(1, self.agree * len(drafts))
        why = f"{counts[common]} of {len(drafts)} drafts from memory have the answer {common or 'none'!r}"
        numbers = {"drafts": float(len(drafts)), "equal": float(counts[common])}
        trace.decide("drafts", "agree" if is_sure else "disagree", why, threshold=self.agree, numbers=numbers)
        texts = [text for text, short in drafts if short == common][:1]
        try:
            state.stop_reason = "the drafts agree" if is_sure else await self._search(state, texts)
        except NoRoom:
            state.stop_reason = "there is no room for another call"
        if drafts and len(texts) == 1:  # a text from memory
            state.show_passages(())
        state.keep_text(texts[-1] if texts else await self._read(state, (), ("answer",)), 0)
        answer = await state.finish()
        share = counts[normalise_answer(answer.short)] / len(drafts) if len(drafts) > 1 else None
        return replace(answer, agreement=share)

    async def _write_drafts(self, state: GenerationState) -> list[tuple[str, str]]:
        """Return drafts from memory, each with its short answer after normalisation, unless that is none."""
        question, model = state.question, state.run.model
        prompt = prompts.answer_prompt(model, question, layout=self.layout, template=self.prompts)
        sampling = Sampling(self.max_tokens, self.draft_temperature, stop=prompts.stops_of(prompt))
        drafts = await model.generate(GenerateRequest(prompt, sampling, n=self.drafts, key=("drafts",)))
        plain = [parse_markers(draft.text, question, state.run.trace).text for draft in drafts]
        shorts = [short_answer(text, question) for text in plain]
        known = ["" if is_refusal(short) else normalise_answer(short) for short in shorts]
        return list(zip(plain, known, strict=True))

    async def _search(self, state: GenerationState, texts: list[str]) -> str:
        """Append what is written from the passages of each round to `texts`, and return why that ends."""
        hits, queries = tuple[Hit, ...](), [state.question.text]
        why = "the question itself is the first query"
        for step in range(self.max_rounds):
            known = frozenset(hit.passage.id for hit in hits)
            found = await state.search_for(queries[-1], self.passages, why, known)
            if not found:
                return "the search found no further passage"
            hits = tuple(sorted((*hits, *found), key=lambda hit: hit.rank))
            text = await self._read(state, hits, ("answer", step))
            texts += [text] if text.strip() else []
            verdict, query = await self._judge(state, text, queries)
            if verdict == "yes" and text.strip():
                return "the passages support the answer"
            if state.obstacle_to(query):
                return "the model names no further query"
            queries.append(query)
            why = "the passages do not support the answer"
        return f"there were {self.max_rounds} rounds"

    async def _read(self, state: GenerationState, hits: Sequence[Hit], key: Key) -> str:
        """Return what the model writes from the passages, and keep those that its prompt has room for."""
        await state.show_fitting(tuple(hits))
        return (await state.write(self.max_tokens, key)).text

    async def _judge(self, state: GenerationState, text: str, queries: Sequence[str]) -> tuple[str, str]:
        """Return whether the passages support a text, in one word, and the query for what they lack.

        Raises:
            NoRoom: The context window or the budget has no room for the request.
        """

        def prompt(num_hits: int) -> Prompt:
            return verdict_prompt(state, text, queries, state.hits[:num_hits])

        def fits(num_hits: int) -> Awaitable[bool]:
            return has_room(state.run.model, prompt(num_hits), _ONE_LINE.max_tokens)

        num_hits = await num_fitting(state.run, len(state.hits), fits)
        if not await fits(num_hits):
            raise NoRoom
        request = GenerateRequest(prompt(num_hits), _ONE_LINE, key=("verdict", len(queries) - 1))
        (generation,) = await state.run.model.generate(request)
        reply = " ".join(generation.text.split())
        match = _VERDICT.match(reply)
        outcome = match[1].lower() if match else "unreadable"
        why = f"asked whether the passages support the answer, the model says: {reply}"
        numbers = {"round": float(len(queries)), "passages": float(num_hits)}
        state.run.trace.decide("support", outcome, why, numbers=numbers)
        return outcome, reply[match.end() if match else 0 :].strip('"“” ')


def verdict_prompt(state: GenerationState, text: str, queries: Sequence[str], hits: Sequence[Hit]) -> Prompt:
    """Return the prompt that asks whether passages support a text, and for a query if they do not."""
    tried = f"{'; '.join(queries)}\nAnswer: {' '.join(text.split())}"
    last = _request([hit.passage for hit in hits], prompts.question_spans(state.question), tried)
    worked, parts = [], [Span(f"{PROMPT['instruction']}\n\n")]
    for each in PROMPT["examples"]:
        passages = [Passage("", **fields) for fields in each["passages"]]
        spans = _request(passages, [untrusted(each["question"])], each["tried"])
        worked.append((spans, each["verdict"]))
        parts += [*spans, Span(f" {each['verdict']}\n\n")]
    turns = prompts.chat_turns(PROMPT["instruction"], worked, last)
    return prompts.in_layout(state.layout, state.run.model, [*parts, *last], turns, "")


def _request(passages: Sequence[Passage], asked: Sequence[Span], tried: str) -> tuple[Span, ...]:
    shown = prompts.numbered([prompts.passage_text(passage) for passage in passages])
    queries = Span("\nSearched for: "), untrusted(tried), Span("\nSupported:")
    return (*shown, Span("Question: "), *asked, *queries)
