"""Self-RAG with a model that was trained on reflection tokens: it decides and judges while it writes."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from askance.core.ports import Model, Run
from askance.core.types import (
    GenerateRequest,
    Generation,
    Hit,
    Key,
    Part,
    Question,
    Raw,
    Sampling,
    Span,
    Token,
    TokenIds,
    untrusted,
)
from askance.methods.reflection_tokens import (
    CLOSES,
    KEEP_USING,
    NO_SEARCH,
    OPENS,
    RELEVANT,
    SEARCH,
    Distribution,
    Group,
    disarmed,
)
from askance.methods.reflection_vocabulary import WANT, Vocabulary, distribution
from askance.methods.selfrag_judging import judged, onward_of, relevance_of, with_support
from askance.methods.selfrag_options import written_options
from askance.methods.selfrag_scorers import ReflectionScorer
from askance.methods.selfrag_segments import Action, Path, Segment, fitting
from askance.methods.selfrag_tasks import before_answer, instruction_spans
from askance.text.sentences import sentence_spans
from askance.tree.abreast import both

if TYPE_CHECKING:
    from askance.methods.selfrag import Selfrag

_BEGINS: Mapping[Action, str] = {"retrieve": SEARCH, "continue": KEEP_USING, "none": NO_SEARCH}
_WHOLE = re.compile(r"[.!?。！？]['\"”’)\]]*\s*$")


class NativeWriter:
    """Writes on token ids: what the model wrote goes into the next prompt id by id.

    A passage stands in the prompt where it was found, and leaves it when another is in use
    (`evidence=keep_all`: when the window is full); the text and tokens written with it stay. A scorer, where
    one is given, judges in place of the model's own probabilities.
    """

    def __init__(
        self, selfrag: "Selfrag", question: Question, run: Run, scorer: ReflectionScorer | None = None
    ) -> None:
        self._selfrag, self._question, self._run, self._scorer = selfrag, question, run, scorer
        self._vocabulary = Vocabulary.of(run.model)
        self._instruction = instruction_spans(selfrag, question)

    async def begin(self) -> tuple[Path, Distribution]:
        """What is written before the first retrieve token is kept, where one follows within `scan_tokens`."""
        if self._scorer is not None:
            return Path(), await self._scorer.retrieve("", (), key=("decide",))
        until = self._vocabulary.segment_end
        sampling = Sampling(self._selfrag.scanned_tokens)
        (probe,) = await self._run.model.generate(
            GenerateRequest(self._prompt((), None, None), sampling, WANT, until, key=("decide",))
        )
        if probe.finish != "retrieve":
            if self._selfrag.threshold is None:
                return Path(), {}
            return Path(), distribution(_first_token(probe), "retrieve")
        lead = Segment(_words(probe.tokens, self._vocabulary), "lead", ids=_ids(probe.tokens))
        path = Path((lead,) if lead.text else ())
        return path, distribution(probe.dropped[0], "retrieve")

    async def write(self, path: Path, action: Action, hit: Hit | None, *, key: Key, whole: bool) -> Segment:
        passage = hit if action == "retrieve" else path.in_use if action == "continue" else None
        max_tokens = self._selfrag.max_tokens
        prompt = self._fitting(path.segments, action, passage, max_tokens)
        until = None if whole else self._vocabulary.segment_end
        writing = self._run.model.generate(
            GenerateRequest(prompt, Sampling(max_tokens), WANT, until, key=key)
        )
        judging = relevance_of(self._selfrag, self._scorer, passage if action == "retrieve" else None, key)
        (written,), relevance = await both(writing, judging)
        is_cut = written.finish == "length" and not whole
        kept = _whole_sentences(written, self._vocabulary.control) if is_cut else written
        segment = self._segment(kept, action, passage)
        if self._scorer is not None:
            return await judged(
                self._selfrag, self._scorer, path, segment, key, whole=whole, relevance=relevance
            )
        return await self._closed(path, segment, key) if is_cut else segment

    async def judge(self, path: Path, segment: Segment, *, key: Key) -> Segment:
        return segment if self._scorer is None else await with_support(self._scorer, path, segment, key)

    async def onward(self, path: Path, *, key: Key) -> Distribution:
        if self._scorer is None:  # it was read where the segment ended
            return path.segments[-1].onward
        return await onward_of(self._selfrag, self._scorer, path, key)

    async def utility(self, path: Path) -> Distribution:
        key = (*path.name.split("."), "utility")
        if self._scorer is not None:
            return await self._scorer.utility(" ".join(path.written.split()), key=key)
        return distribution(_first_token(await self._next(path.segments, key)), "utility")

    async def options(self, path: Path, hit: Hit, options: tuple[str, ...]) -> tuple[float, ...]:
        model = self._run.model
        written = [as_written(model, each) for each in written_options(self._selfrag, self._question)]
        longest = max(len(model.tokenize(option)) for option in written)
        prompt = self._fitting(path.segments, "retrieve", hit, longest, Span(RELEVANT))
        scores = await model.score(prompt, written)
        return tuple(each.logprob / each.num_tokens for each in scores)

    async def _next(self, segments: Sequence[Segment], key: Key) -> Generation:
        """The token that would follow, for the probabilities of all tokens where it stands."""
        prompt = self._fitting(segments, None, _in_use(segments), 1)
        (read,) = await self._run.model.generate(
            GenerateRequest(prompt, Sampling(1), WANT, self._vocabulary.segment_end, key=key)
        )
        return read

    def _segment(self, written: Generation, action: Action, hit: Hit | None) -> Segment:
        selfrag, control = self._selfrag, self._vocabulary.control
        tokens = written.tokens
        seen = (*tokens, *written.dropped)
        finish = written.finish
        return Segment(
            written=" " + _words(tokens, self._vocabulary),
            action=action,
            hit=hit,
            ids=_ids(tokens),
            relevance=distribution(seen[0], "relevance") if action == "retrieve" and seen else {},
            support=distribution(self._first(tokens, "support"), "support"),
            utility=distribution(self._first(tokens, "utility"), "utility"),
            labels=self._names(tokens),
            onward=distribution(written.dropped[0], "retrieve") if finish == "retrieve" else {},
            sequence_score=_sequence_score(written, control if selfrag.seqscore_text_only else None),
            is_last=finish in ("end", "utility"),
            finish=finish,
        )

    async def _closed(self, path: Path, segment: Segment, key: Key) -> Segment:
        """A segment that the length cut, with what the model would do behind it."""
        read = await self._next((*path.segments, segment), (*key, "onward"))
        token, is_judged = _first_token(read), read.finish == "utility"
        return replace(
            segment,
            onward=distribution(token, "retrieve"),
            utility=distribution(token, "utility") if is_judged else segment.utility,
            labels=segment.labels | self._names(read.tokens),
            is_last=is_judged or read.finish == "end",
        )

    def _names(self, tokens: Sequence[Token]) -> frozenset[str]:
        names = {id: name for name, id in self._vocabulary.ids.items()}
        return frozenset(names[token.id] for token in tokens if token.id in names)

    def _first(self, tokens: Sequence[Token], group: Group) -> Token | None:
        ids = self._vocabulary.group(group)
        return next((token for token in tokens if token.id in ids), None)

    def _fitting(
        self,
        segments: Sequence[Segment],
        action: Action | None,
        hit: Hit | None,
        max_tokens: int,
        *more: Part,
    ) -> Raw:
        """The prompt; what the window has no room for goes: earlier passages first, then the end of `hit`."""
        model, keeps = self._run.model, self._selfrag.evidence == "keep_all"
        earlier = [at for at, each in enumerate(segments) if each.action == "retrieve"] if keeps else []
        if hit is not None and action != "retrieve":
            del earlier[-1:]  # its own place
        while earlier:
            prompt = self._prompt(segments, action, hit, earlier, more)
            if model.count(prompt) + max_tokens <= model.context_tokens:
                return prompt
            self._run.trace.decide("passage", "drop", "the window has no room for the oldest passage")
            del earlier[0]
        if hit is None:
            return self._prompt(segments, action, None, (), more)
        return fitting(
            self._run, model, lambda cut: self._prompt(segments, action, cut, (), more), hit, max_tokens
        )

    def _prompt(
        self,
        segments: Sequence[Segment],
        action: Action | None,
        hit: Hit | None,
        earlier: Sequence[int] = (),
        more: Sequence[Part] = (),
    ) -> Raw:
        """All so far, and what begins the next segment.

        Args:
            action: None where the model shall say what comes next.
            hit: the passage of the next segment; where that brings none, it stands where it was found.
            earlier: the segments whose passages stay.
        """
        parts = before_answer(self._instruction)
        begins = (Span(_BEGINS[action]),) if action else ()
        passage = passage_parts(hit) if hit and action == "retrieve" else ()
        so_far = self._so_far(segments, None if action == "retrieve" else hit, earlier)
        return Raw(parts, (*so_far, *begins, *passage, *more))

    def _so_far(
        self, segments: Sequence[Segment], in_use: Hit | None, earlier: Sequence[int]
    ) -> Iterator[Part]:
        found = [at for at, segment in enumerate(segments) if segment.action == "retrieve"]
        for at, segment in enumerate(segments):
            if segment.action in _BEGINS:
                yield Span(_BEGINS[segment.action])
            if in_use is not None and at in found[-1:]:
                yield from passage_parts(in_use)
            elif at in earlier and segment.hit is not None:
                yield from passage_parts(segment.hit)
            yield segment.ids


def passage_parts(hit: Hit) -> tuple[Part, ...]:
    """A passage between its two tokens; strings of reflection tokens in it are broken."""
    title, text = disarmed(hit.passage.title)[0], disarmed(hit.passage.text)[0]
    return (Span(OPENS), untrusted(title), Span("\n"), untrusted(text), Span(CLOSES))


def as_written(model: Model, option: str) -> str:
    """`option` as the model writes it behind [Relevant].

    Some tokenizers, Llama 2's among them, put a space before a text that follows a control token; a model
    that was trained on it so writes "▁A", not "A".
    """
    ids = model.tokenize([Span(RELEVANT + option)])[1:]
    text = model.decode(ids)
    return text if model.tokenize(text) == ids else option


def _first_token(written: Generation) -> Token | None:
    return next(iter((*written.tokens, *written.dropped)), None)


def _ids(tokens: Sequence[Token]) -> TokenIds:
    return tuple(token.id for token in tokens)


def _words(tokens: Sequence[Token], vocabulary: Vocabulary) -> str:
    """What stands between control tokens; a passage that the model made up itself does not."""
    control, opens, closes = vocabulary.control, vocabulary.ids[OPENS], vocabulary.ids[CLOSES]
    pieces, in_passage = list[str](), False
    for token in tokens:
        in_passage = in_passage or token.id == opens
        if not in_passage:
            # A token between two words may be all that parts them.
            pieces.append(" " if token.id in control else token.text)
        in_passage = in_passage and token.id != closes
    return "".join(pieces)


def _sequence_score(written: Generation, left_out: Collection[int] | None) -> float:
    """Of the tokens kept, and of the one that ended the answer; of words alone, where tokens are left out."""
    tokens = written.tokens
    if left_out is not None:
        tokens = tuple(token for token in tokens if token.id not in left_out)
    elif written.finish == "end":
        tokens = (*tokens, *written.dropped)
    logprobs = [token.logprob or 0.0 for token in tokens]
    return math.exp(sum(logprobs) / len(logprobs)) if logprobs else 0.0


def _whole_sentences(written: Generation, control: Collection[int]) -> Generation:
    """What was written without the sentence it breaks off in, if that is not all of it.

    What was judged of the last whole sentence stays.
    """
    tokens = written.tokens
    text = "".join(" " * len(token.text) if token.id in control else token.text for token in tokens)
    spans = sentence_spans(text)
    if len(spans) < 2 or tokens[-1].id in control or _WHOLE.search(text):
        return written
    num_kept = sum(token.start < spans[-2][1] for token in tokens)
    while tokens[num_kept].id in control:
        num_kept += 1
    return replace(written, text=written.text[: tokens[num_kept - 1].end], tokens=tokens[:num_kept])


def _in_use(segments: Sequence[Segment]) -> Hit | None:
    return next((each.hit for each in reversed(segments) if each.action == "retrieve"), None)
