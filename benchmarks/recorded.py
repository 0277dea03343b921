"""The contents of a recorded run of the DRAGIN authors' code: generations, passages, linguistic rules."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, cast

import numpy as np

from askance.core.types import (
    Attention,
    GenerateRequest,
    Generation,
    Hit,
    Passage,
    Prompt,
    Raw,
    Sampling,
    Span,
    Token,
    TokenIds,
    Want,
)
from askance.text.linguistics import Linguistics
from askance_lab.reproductions.dragin import read_words

Record = dict[str, Any]


class Tally:
    """Counts of comparisons and of equal results, by kind of comparison.

    Each difference is printed when it is found.
    """

    def __init__(self) -> None:
        self.equal: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.worst = {"attention": 0.0, "entropy": 0.0}

    def compare(self, what: str, ours: object, theirs: object) -> None:
        self.total[what] += 1
        self.equal[what] += ours == theirs
        if ours != theirs:
            print(f"{what} differs:\n  ours   {str(ours)[:300]!r}\n  theirs {str(theirs)[:300]!r}")


class RecordedAnswers:
    """A `Model` that plays back recorded generations and their signals, with the bundled tokenizer."""

    def __init__(self, rounds: list[Record], inner: Any, space_marker: str, tally: Tally) -> None:
        self._rounds, self._inner, self._marker, self._tally = rounds, inner, space_marker, tally
        self._places = iter([at for at, entry in enumerate(rounds) if entry["kind"] == "generate"])
        self._influences: dict[TokenIds, list[float]] = {}
        self.name, self.fingerprint, self.precision = "recorded", "", "float32"
        self.context_tokens = 1 << 20
        self.counts_exactly = True
        self.signals, self.capabilities = inner.signals, inner.capabilities

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        want, at = request.want, next(self._places)
        entry = self._rounds[at]
        # A `Model` can count the tokens of a prompt, but returns their ids only with a generation.
        prompt_ids = self._inner._encoding.encode(request.prompt)
        self._tally.compare("prompts by ids", list(prompt_ids), entry["prompt_ids"])
        self._tally.compare("generation lengths", request.sampling.max_tokens, entry["max_new"])
        ids = tuple(entry["new_ids"])
        entropies: list[float | None] = [None] * len(ids)
        logprobs: list[float | None] = [None] * len(ids)
        if want.entropy:
            entropies = [*self._recorded_signals(ids, self._rounds[at + 1])]
        if want.logprob:
            computed = await compute_again(self._inner, entry, want)
            self._tally.compare("regenerated ids", [token.id for token in computed], entry["new_ids"])
            logprobs = [token.logprob for token in computed]
        num_kept = len(ids) - (ids[-1] in self._inner._vocabulary.end_ids)
        tokens = [Token(id, "", 0, 0, logprobs[i], entropies[i]) for i, id in enumerate(ids)]
        text = self.decode(ids[:num_kept])
        return (Generation(text, tuple(tokens[:num_kept]), tuple(tokens[num_kept:])),)

    async def score(self, prompt: Prompt, options: object) -> tuple[Any, ...]:
        raise NotImplementedError("no replayed method scores")

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        if isinstance(text, str) or bos:  # a query's pass; the pass of a draft has no BOS
            return cast(Attention, await self._inner.attend(text, bos=bos))
        weights = np.zeros((1, len(text), len(text)), dtype=np.float32)
        weights[0, -1] = self._influences[text]
        return Attention(text, (), weights)

    def tokenize(self, text: str | Sequence[Span], *, at_start: bool = False) -> TokenIds:
        return cast(TokenIds, self._inner.tokenize(text, at_start=at_start))

    def decode(self, ids: TokenIds, *, at_start: bool = False) -> str:
        return cast(str, self._inner.decode(ids, at_start=at_start))

    def pieces(self, ids: TokenIds) -> tuple[str, ...]:
        return cast(tuple[str, ...], self._inner.pieces(ids))

    async def count(self, prompt: Prompt) -> int:
        return cast(int, await self._inner.count(prompt))

    def _recorded_signals(self, ids: TokenIds, recorded: Record) -> Iterator[float]:
        """Yield token entropies that reproduce the recorded word entropies, and store the word influences."""
        words = read_words(ids, self.pieces(ids), self._marker, after_end=True)
        self._tally.compare("words", [word.text for word in words], recorded["words"])
        influences = []
        for word, summed, entropy in zip(words, recorded["attn"], recorded["entropy"], strict=True):
            influences += [summed] + [0.0] * (word.last - word.first - 1)
            yield from [entropy] * (word.last - word.first)
        self._influences[ids] = influences


class RecordedSearches:
    """A `Retriever` that returns the passages shown in the recorded prompts."""

    name, fingerprint = "recorded", ""

    def __init__(self, rounds: list[Record], decode: Any, tally: Tally) -> None:
        self._entries = iter([entry for entry in rounds if entry["kind"] == "retrieve"])
        prompts = [decode(entry["prompt_ids"]) for entry in rounds if entry["kind"] == "generate"]
        self._shown = iter([parsed for parsed in map(passage_block, prompts) if parsed])
        self._tally = tally

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        entry = next(self._entries)
        self._tally.compare("searches", query, entry["query_truncated"])
        bodies, _ = next(self._shown)
        passages = map(Passage, map(str, entry["doc_ids"]), entry["titles"], bodies)
        return tuple(Hit(passage, 1 / rank, rank) for rank, passage in enumerate(passages, start=1))


def passage_block(prompt: str) -> tuple[list[str], str] | None:
    """Return the passages of a recorded prompt, and the line that the authors' code wrote below them.

    The result is None if the prompt has no passages.
    """
    found = re.search(r"^Context:\n((?:\[\d\] .*\n)+)(.*)\n", prompt, flags=re.MULTILINE)
    if found is None:
        return None
    return [line.partition("] ")[2] for line in found[1].splitlines()], found[2]


def split_demo(demo: str) -> tuple[str, str]:
    """Return the question and the answer of a recorded example."""
    asked, _, answer = demo.removeprefix("Question: ").partition("\nAnswer: ")
    return asked, answer


class RecordedLanguage:
    """The rules that the recording used instead of a spaCy model, for sentences and content words."""

    def __init__(self) -> None:
        import spacy

        self._read = spacy.blank("en")
        self._read.add_pipe("sentencizer")
        self.linguistics = Linguistics("recorded", self._sentences, self._content_spans, self._entities)

    def count_sentences(self, text: str) -> int:
        """Return the number of sentences, including blank ones."""
        return sum(1 for _ in self._read(text).sents)

    def _sentences(self, text: str) -> tuple[str, ...]:
        return tuple(s.text.strip() for s in self._read(text).sents if s.text.strip())

    def _content_spans(self, text: str) -> tuple[tuple[int, int], ...]:
        real = (token for token in self._read(text) if _is_real(token))
        return tuple((token.idx, token.idx + len(token)) for token in real)

    def _entities(self, text: str) -> tuple[tuple[int, int], ...]:
        """Return the spans of the longest runs of numbers and capitalised content words."""
        runs = groupby(self._read(text), key=_is_of_entity)
        found = [tuple(tokens) for is_of_entity, tokens in runs if is_of_entity]
        return tuple((tokens[0].idx, tokens[-1].idx + len(tokens[-1])) for tokens in found)


def _is_real(token: Any) -> bool:
    if token.is_space or token.is_punct:
        return False
    return token.like_num or (not token.is_stop and any(c.isalnum() for c in token.text))


def _is_of_entity(token: Any) -> bool:
    return _is_real(token) and (token.like_num or token.text[0].isupper())


async def compute_again(inner: Any, entry: Record, want: Want) -> tuple[Token, ...]:
    prompt = Raw((tuple(entry["prompt_ids"]),))
    (computed,) = await inner.generate(
        GenerateRequest(prompt, Sampling(entry["max_new"]), want, key=("replay",))
    )
    return (*computed.tokens, *computed.dropped)
