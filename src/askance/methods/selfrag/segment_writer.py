"""Write the segments of Self-RAG with any model, and have a scorer judge them.

A model that was trained on reflection tokens needs no scorer: it decides and judges while it writes.
"""

import asyncio
import re
from collections.abc import Awaitable, Collection
from dataclasses import dataclass, field, replace
from itertools import chain

from askance.core.ports import Run
from askance.core.token_ledger import NoRoom
from askance.core.types import (
    GenerateRequest,
    Generation,
    Hit,
    Key,
    Part,
    Passage,
    Prompt,
    Question,
    Raw,
    Sampling,
    Span,
    StopCondition,
    Want,
)
from askance.methods.common.prompts import answer_prompt, stops_of
from askance.methods.selfrag.parameters import OwnParameters
from askance.methods.selfrag.scoring import Scorer, fit_passage, passage_spans
from askance.methods.selfrag.segments import Action, Path, Segment
from askance.methods.selfrag.tokens import (
    RETRIEVE_TOKENS,
    WANTED,
    Distribution,
    Group,
    ReflectionVocabulary,
    SegmentEnd,
    distribution,
    first_distribution,
    most_likely,
)
from askance.text.answers import AnswerEnd, SentenceEnd, has_answer, sentence_spans

_WHOLE = re.compile(r"[.!?。！？]['\"”’)\]]*\s*$")


@dataclass(eq=False)
class SegmentWriter:
    """A writer of the segments of one answer, which prompts any model with the shared prompt template.

    A segment or judgement is empty if its call does not fit the token budget.

    Attributes:
        scorer: The scorer of the segments; None if the model scores them while it writes.
        was_short: True if the token budget was too small for a segment at least once.
    """

    parameters: OwnParameters
    question: Question
    run: Run
    scorer: Scorer | None
    was_short: bool = field(default=False, init=False)
    _relevances: dict[Passage, Distribution] = field(default_factory=dict, init=False)
    _locks: dict[Passage, asyncio.Lock] = field(default_factory=dict, init=False)

    async def start_path(self) -> Path:
        """Return the initial path, with the probabilities for the first retrieve decision."""
        return Path(retrieve_probs=await self._judge("retrieve", key=("decide",)))

    async def write(self, path: Path, action: Action, hit: Hit | None, *, key: Key, whole: bool) -> Segment:
        """Write the next segment of `path`. It may be judged later (see `with_judgements`).

        If `whole` is true, the segment is the whole rest of the answer and is judged fully.
        """
        segment: Segment
        passage = hit if action == "retrieve" else path.current_hit if action == "continue" else None
        try:
            segment_task = self._write_segment(path, action, passage, key, whole)
            if self.scorer is None:
                return await segment_task
            relevance_task = self._relevance(hit, (*key, "relevance"))
            segment, relevance = await self.parameters.together([segment_task, relevance_task])
        except NoRoom as error:
            self.was_short = True
            self.run.trace.decide("segment", "no room", str(error))
            return Segment("", action, hit)
        is_new = bool(segment.text) and passage is not None and action == "retrieve"
        later = {"support"} if is_new else set[str]()
        later |= {"utility"} if self.parameters.grades_segments and segment.text else set()
        segment = replace(  # a judgement by the writing model does not count
            segment,
            relevance=relevance,
            support={},
            utility={},
            labels=frozenset({most_likely(relevance)}),
            retrieve_probs={},
            is_judged=not later & self.parameters.needed_groups,
        )
        if not segment.text or not (whole or self.parameters.reject_unsupported):
            return segment
        judging = self.with_judgements(path, segment, key=key)
        if not whole or (self.parameters.grades_segments and not segment.is_judged):
            return await judging  # an upper bound can't show a rejection
        answer = f"{path.text} {segment.text}".strip()
        utility_task = self._judge("utility", None, "", answer, key=(*key, "utility"))
        segment, utility = await self.parameters.together([judging, utility_task])
        return replace(segment, utility=utility)

    async def with_judgements(self, path: Path, segment: Segment, *, key: Key) -> Segment:
        """Return `segment`, which follows `path`, with its support and its own utility judged, if any."""
        if segment.is_judged:
            return segment
        judging, text = dict[str, Awaitable[Distribution]](), segment.text
        if segment.action == "retrieve":
            judging["support"] = self._judge("support", segment.hit, path.text, text, key=(*key, "support"))
        if self.parameters.grades_segments:
            judging["utility"] = self._judge("utility", None, "", text, key=(*key, "utility"))
        judged = dict(zip(judging, await self.parameters.together(judging.values()), strict=True))
        support, utility = judged.get("support", {}), judged.get("utility", {})
        labels = segment.labels | {most_likely(support)}
        return replace(segment, support=support, utility=utility, labels=labels, is_judged=True)

    async def retrieve_probs(self, path: Path, *, key: Key) -> Distribution:
        """Return the probabilities of the retrieve tokens at the end of a path that has segments."""
        if self.scorer is None:
            return path.segments[-1].retrieve_probs
        return await self._judge("retrieve", path.current_hit, path.text, key=(*key, "onward"))

    async def utility(self, path: Path) -> Distribution:
        """Return the utility distribution of the current answer."""
        return await self._judge("utility", None, "", path.text, key=(*path.name.split("."), "utility"))

    async def _relevance(self, hit: Hit | None, key: Key) -> Distribution:
        """Return the relevance of a passage.

        It is judged once per question, because it does not depend on the text of the answer.
        """
        if hit is None:
            return {}
        async with self._locks.setdefault(hit.passage, asyncio.Lock()):
            if hit.passage not in self._relevances:
                self._relevances[hit.passage] = await self._judge("relevance", hit, key=key)
            return self._relevances[hit.passage]

    async def _judge(
        self, group: Group, hit: Hit | None = None, so_far: str = "", text: str = "", *, key: Key
    ) -> Distribution:
        if self.scorer is None or group not in self.parameters.needed_groups:
            return {}
        try:
            return await self.scorer(group, hit, so_far, text, key=key)
        except NoRoom:
            return {}

    async def _write_segment(
        self, path: Path, action: Action, passage: Hit | None, key: Key, whole: bool
    ) -> Segment:
        def prompt_with(*hits: Hit) -> Prompt:
            layout, template = self.parameters.layout, self.parameters.prompts
            return answer_prompt(self.run.model, self.question, hits, path.written, layout, template)

        max_tokens, want = self.parameters.max_tokens, Want(logprob=self.parameters.use_seqscore)
        prompt = await fit_passage(self.run, self.run.model, prompt_with, passage, max_tokens)
        until: StopCondition = AnswerEnd(path.written) if whole else SentenceEnd()
        request = GenerateRequest(prompt, Sampling(max_tokens, stop=stops_of(prompt)), want, until, key=key)
        (written,) = await self.run.model.generate(request)
        return Segment(
            written.text,
            action,
            passage,
            sequence_score=self.parameters.sequence_score(written.tokens),
            is_last=written.finish in ("end", "stop") or has_answer(path.written + written.text),
        )


@dataclass(eq=False)
class NativeWriter(SegmentWriter):
    """A writer that puts the token ids of earlier segments into the next prompt, exactly as generated.

    A passage keeps its position in the prompt until the next passage replaces it. The tokens that were
    written with a replaced passage stay. If there is a scorer, its judgements replace the model's own
    probabilities.

    Attributes:
        head: The prompt up to where the answer begins.
    """

    head: tuple[Span, ...]
    _vocabulary: ReflectionVocabulary = field(init=False)

    def __post_init__(self) -> None:
        self._vocabulary = ReflectionVocabulary.of(self.run.model)

    async def start_path(self) -> Path:
        """Return the initial path, with the probabilities for the first retrieve decision.

        In the long form, the model may write up to 25 tokens before it decides, and the path keeps the text
        before the retrieve token. If there is no such token, the path gets the probabilities at the
        first token if a threshold is set, and no probabilities if none is set.
        """
        if self.scorer is not None or self.parameters.mode != "adaptive":
            return await super().start_path()
        probe = await self._probe(Path(), ("decide",), 25 if self.parameters.form == "long" else 1)
        if probe.finish != "retrieve":
            has_threshold = self.parameters.threshold is not None
            return Path(retrieve_probs=first_distribution(probe, "retrieve") if has_threshold else {})
        lead = self._segment(probe, "lead", None)
        return Path((lead,) if lead.text else (), retrieve_probs=lead.retrieve_probs)

    async def utility(self, path: Path) -> Distribution:
        """Return the utility distribution of the current answer."""
        if self.scorer is not None or "utility" not in self.parameters.needed_groups:
            return await super().utility(path)
        try:
            end = await self._probe(path, (*path.name.split("."), "utility"))
        except NoRoom:
            return {}
        return first_distribution(end, "utility")

    async def _write_segment(
        self, path: Path, action: Action, passage: Hit | None, key: Key, whole: bool
    ) -> Segment:
        max_tokens = self.parameters.max_tokens
        written = await self._generate(path, action, passage, max_tokens, key, whole=whole)
        is_cut = written.finish == "length" and not whole
        if is_cut:
            written = _drop_unfinished_sentence(written, self._vocabulary.control_ids)
        segment = self._segment(written, action, passage)
        return await self._with_end_probs(path, segment, key) if is_cut and self.scorer is None else segment

    def _segment(self, written: Generation, action: Action, hit: Hit | None) -> Segment:
        vocabulary, tokens, finish = self._vocabulary, written.tokens, written.finish
        counted = (*tokens, *written.dropped) if finish == "end" else tokens
        utility = vocabulary.group_probs(tokens, "utility")
        if self.parameters.grades_segments and not utility:  # the token would stand at the end
            utility = distribution(written.dropped, "utility")
        return Segment(
            written=" " + vocabulary.text_of(tokens),
            action=action,
            hit=hit,
            ids=tuple(token.id for token in tokens),
            relevance=first_distribution(written, "relevance") if action == "retrieve" else {},
            support=vocabulary.group_probs(tokens, "support"),
            utility=utility,
            labels=self._vocabulary.token_names(tokens),
            retrieve_probs=distribution(written.dropped, "retrieve") if finish == "retrieve" else {},
            sequence_score=self.parameters.sequence_score(counted),
            is_last=finish in ("end", "utility"),
        )

    async def _with_end_probs(self, path: Path, segment: Segment, key: Key) -> Segment:
        """Return a segment cut by the length limit, with the probabilities of the next reflection tokens."""
        end = await self._probe(replace(path, segments=(*path.segments, segment)), (*key, "onward"))
        is_graded = end.finish == "utility" or self.parameters.grades_segments
        return replace(
            segment,
            retrieve_probs=first_distribution(end, "retrieve"),
            utility=first_distribution(end, "utility") if is_graded else segment.utility,
            labels=segment.labels | self._vocabulary.token_names(end.tokens),
            is_last=end.finish in ("end", "utility"),
        )

    async def _probe(self, path: Path, key: Key, max_tokens: int = 1) -> Generation:
        """Return the tokens that the model would write after `path`, up to the end of a segment."""
        return await self._generate(path, None, path.current_hit, max_tokens, key, whole=False)

    async def _generate(
        self, path: Path, action: Action | None, hit: Hit | None, max_tokens: int, key: Key, *, whole: bool
    ) -> Generation:
        """Generate what follows `path`, with the probabilities of all reflection tokens at each position.

        Args:
            action: How the next segment begins; None if the model decides what comes next.
            hit: The passage in use, which is cut if the context window has no room for it. If the next
                segment does not retrieve, the passage keeps its earlier position.
            whole: Whether to generate the whole rest of the answer, instead of one segment.
        """
        begun = [*((segment.action, segment.ids) for segment in path.segments), (action, ())]
        position = max((index for index, (start, _) in enumerate(begun) if start == "retrieve"), default=-1)

        def prompt_with(*shown: Hit) -> Raw:
            parts = list[Part]()
            for index, (start, ids) in enumerate(begun):
                if start is not None and start != "lead":
                    parts.append(Span(RETRIEVE_TOKENS[start]))
                if index == position:
                    parts += chain.from_iterable(map(passage_spans, shown))
                parts += [ids] if ids else []
            return Raw(self.head, tuple(parts))

        prompt = await fit_passage(self.run, self.run.model, prompt_with, hit, max_tokens)
        ids_of = self._vocabulary.group_ids
        until = None if whole else SegmentEnd(ids_of("retrieve"), ids_of("utility"))
        request = GenerateRequest(prompt, Sampling(max_tokens), WANTED, until, key=key)
        (generation,) = await self.run.model.generate(request)
        return generation


def _drop_unfinished_sentence(written: Generation, control: Collection[int]) -> Generation:
    """Return the generation without its unfinished last sentence.

    Reflection tokens after the last whole sentence stay. A generation that has no whole sentence is not
    changed.
    """
    tokens = written.tokens
    text = "".join(" " * len(token.text) if token.id in control else token.text for token in tokens)
    spans = sentence_spans(text)
    if len(spans) < 2 or tokens[-1].id in control or _WHOLE.search(text):
        return written
    num_kept = sum(token.start < spans[-2][1] for token in tokens)
    while num_kept < len(tokens) and tokens[num_kept].id in control:
        num_kept += 1
    return replace(written, text=written.text[: tokens[num_kept - 1].end], tokens=tokens[:num_kept])
