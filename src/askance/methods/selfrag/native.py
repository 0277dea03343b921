"""Self-RAG with a model that was trained on reflection tokens: it decides and judges while it writes."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from askance.core.ports import Model
from askance.core.token_ledger import NoRoom
from askance.core.types import (
    GenerateRequest,
    Generation,
    Hit,
    Key,
    Part,
    Prompt,
    Raw,
    Sampling,
    Span,
    Token,
    TokenIds,
)
from askance.methods.selfrag.judging import fitting, passage_parts
from askance.methods.selfrag.segments import Action, Path, Segment
from askance.methods.selfrag.tasks import written_options
from askance.methods.selfrag.tokens import (
    BEGINS,
    RELEVANT,
    WANT,
    Distribution,
    ReflectionVocabulary,
    distribution,
    first_distribution,
    sequence_score,
)
from askance.methods.selfrag.writing import Writer
from askance.text.answers import sentence_spans

_WHOLE = re.compile(r"[.!?。！？]['\"”’)\]]*\s*$")


@dataclass(eq=False)
class NativeWriter(Writer):
    """Writes on token ids: what the model wrote goes into the next prompt id by id.

    A passage stands in the prompt where it was found, and leaves it when another is in use
    (`evidence=keep_all`: when the window is full); the text and tokens written with it stay. A judge, where
    one is given, judges in place of the model's own probabilities.

    Attributes:
        head: the prompt up to where the answer begins.
    """

    head: tuple[Span, ...]
    _vocabulary: ReflectionVocabulary = field(init=False)

    def __post_init__(self) -> None:
        self._vocabulary = ReflectionVocabulary.of(self.run.model)

    async def begin(self) -> Path:
        """What is written before the first retrieve token is kept, where one follows within `scan_tokens`.

        Where none does, the probabilities at the first token are the decision's, if there is a threshold.
        """
        if self.scorer is not None:
            return await super().begin()
        num_scanned = self.parameters.scan_tokens or (25 if self.parameters.form == "long" else 1)
        probe = await self._next((), ("decide",), num_scanned)
        if probe.finish != "retrieve":
            has_threshold = self.parameters.threshold is not None
            return Path(onward=first_distribution(probe, "retrieve") if has_threshold else {})
        lead = Segment(self._vocabulary.words(probe.tokens), "lead", ids=_ids(probe.tokens))
        return Path((lead,) if lead.text else (), onward=distribution(probe.dropped[0], "retrieve"))

    async def utility(self, path: Path) -> Distribution:
        """How useful the answer is as it stands."""
        if self.scorer is not None:
            return await super().utility(path)
        try:
            read = await self._next(path.segments, (*path.name.split("."), "utility"))
        except NoRoom:
            return {}
        return first_distribution(read, "utility")

    async def _written(
        self, path: Path, action: Action, passage: Hit | None, key: Key, whole: bool
    ) -> Segment:
        prompt = self._fitting(path.segments, action, passage, self.parameters.max_tokens)
        until = None if whole else self._vocabulary.segment_end
        (written,) = await self.run.model.generate(
            GenerateRequest(prompt, Sampling(self.parameters.max_tokens), WANT, until, key=key)
        )
        if written.finish != "length" or whole:
            return self._segment(written, action, passage)
        segment = self._segment(_whole_sentences(written, self._vocabulary.control), action, passage)
        return segment if self.scorer is not None else await self._closed(path, segment, key)

    def _options(self, path: Path, hit: Hit, options: tuple[str, ...]) -> tuple[Prompt, Sequence[str]]:
        model = self.run.model
        written = [as_written(model, each) for each in written_options(self.parameters.task, self.question)]
        longest = max(len(model.tokenize(option)) for option in written)
        return self._fitting(path.segments, "retrieve", hit, longest, Span(RELEVANT)), written

    async def _next(self, segments: Sequence[Segment], key: Key, num_tokens: int = 1) -> Generation:
        """The tokens that would follow, for the probabilities of all tokens where they stand."""
        prompt = self._fitting(segments, None, Path(tuple(segments)).in_use, num_tokens)
        (read,) = await self.run.model.generate(
            GenerateRequest(prompt, Sampling(num_tokens), WANT, self._vocabulary.segment_end, key=key)
        )
        return read

    def _segment(self, written: Generation, action: Action, hit: Hit | None) -> Segment:
        vocabulary, tokens, finish = self._vocabulary, written.tokens, written.finish
        counted = (*tokens, *written.dropped) if finish == "end" else tokens
        if self.parameters.seqscore_text_only:
            counted = tuple(token for token in tokens if token.id not in vocabulary.control)
        return Segment(
            written=" " + vocabulary.words(tokens),
            action=action,
            hit=hit,
            ids=_ids(tokens),
            relevance=first_distribution(written, "relevance") if action == "retrieve" else {},
            support=vocabulary.judged(tokens, "support"),
            utility=vocabulary.judged(tokens, "utility"),
            labels=self._vocabulary.names(tokens),
            onward=distribution(written.dropped[0], "retrieve") if finish == "retrieve" else {},
            sequence_score=sequence_score(counted),
            is_last=finish in ("end", "utility"),
        )

    async def _closed(self, path: Path, segment: Segment, key: Key) -> Segment:
        """A segment that the length cut, with what the model would do behind it."""
        read = await self._next((*path.segments, segment), (*key, "onward"))
        is_judged = read.finish == "utility"
        return replace(
            segment,
            onward=first_distribution(read, "retrieve"),
            utility=first_distribution(read, "utility") if is_judged else segment.utility,
            labels=segment.labels | self._vocabulary.names(read.tokens),
            is_last=is_judged or read.finish == "end",
        )

    def _fitting(
        self,
        segments: Sequence[Segment],
        action: Action | None,
        hit: Hit | None,
        max_tokens: int,
        *more: Part,
    ) -> Raw:
        """The prompt; what the window has no room for goes: earlier passages first, then the end of `hit`.

        Args:
            action: how the next segment begins; None where the model shall say what comes next.
            hit: the passage of the next segment; where that brings none, it stands where it was found.
        """
        model = self.run.model
        found = [at for at, each in enumerate(segments) if each.action == "retrieve"]
        place = len(segments) if action == "retrieve" else (found or [-1])[-1]
        kept = (
            [at for at in found if at != place or hit is None]
            if self.parameters.evidence == "keep_all"
            else []
        )

        def prompt_with(*shown: Hit) -> Raw:
            passages = {at: segments[at].hit for at in kept}
            if shown:
                passages[place] = shown[0]
            return Raw(self.head, (*self._so_far(segments, action, passages), *more))

        whole = [hit] if hit else []
        while kept and model.count(prompt_with(*whole)) + max_tokens > model.context_tokens:
            self.run.trace.decide("passage", "drop", "the window has no room for the oldest passage")
            del kept[0]
        return fitting(self.run, model, prompt_with, hit, max_tokens)

    def _so_far(
        self, segments: Sequence[Segment], action: Action | None, passages: Mapping[int, Hit | None]
    ) -> Iterator[Part]:
        """All segments and the beginning of the next, with passages by the places of theirs."""
        written = [(each.action, each.ids) for each in segments]
        for at, (begins, ids) in enumerate([*written, (action, ())]):
            if begins is not None and begins != "lead":
                yield Span(BEGINS[begins])
            shown = passages.get(at)
            if shown is not None:
                yield from passage_parts(shown)
            if ids:
                yield ids


def as_written(model: Model, option: str) -> str:
    """`option` as the model writes it behind [Relevant].

    Some tokenizers, Llama 2's among them, put a space before a text that follows a control token; a model
    that was trained on it so writes "▁A", not "A".
    """
    ids = model.tokenize([Span(RELEVANT + option)])[1:]
    text = model.decode(ids)
    return text if model.tokenize(text) == ids else option


def _ids(tokens: Sequence[Token]) -> TokenIds:
    return tuple(token.id for token in tokens)


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
