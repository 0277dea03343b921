"""What a sentence looks back at, by characters: one form for a model's own attention and for a proxy's.

Two models cut the same text differently, and some rewrite it: they add a begin token or a space in front,
join spaces, fold letter case or take a ligature apart. `token_offsets` finds their tokens in it all the same.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from askance.core.ports import Model, Run
from askance.core.types import Generation, Span, TokenIds
from askance.text.linguistics import Linguistics

Offsets = tuple[int, int]


def token_offsets(texts: Sequence[str], target: str) -> tuple[Offsets, ...]:
    """The offsets in `target` of each of `texts`, which join to `target` or nearly so.

    They never decrease and stay inside `target`. A text that has no counterpart gets an empty place, or its
    share of the place of what it replaces.
    """
    joined = "".join(texts)
    places = _places(joined, target)
    ends = list(accumulate(map(len, texts), initial=0))
    return tuple((places[start], places[end]) for start, end in pairwise(ends))


def _places(source: str, target: str) -> list[int]:
    """Of each offset in `source`, the end included, the offset in `target`."""
    shift = source.rfind(target) if target else -1
    if shift >= 0:
        num_behind = len(source) - shift - len(target)
        return [*(0,) * shift, *range(len(target) + 1), *(len(target),) * num_behind]
    places = [0]
    edits = SequenceMatcher(None, source, target, autojunk=False).get_opcodes()
    for _, start, end, first, last in edits:  # what differs takes its even share of what stands there instead
        length = end - start
        places += [first + (last - first) * step // length for step in range(1, length + 1)]
    return places


_SPACED = re.compile(r"\S+")
_REPLACEMENT = "\ufffd"
_MOST_TOKENS_OF_A_CHARACTER = 4
Heads = Literal["max", "mean"]
"""How the heads of a layer are summed up."""
Row = NDArray[np.float32]
"""The attention of one token: shape [tokens], summed up over heads, or [heads, tokens]."""


def over_heads(row: Row, how: Heads) -> Row:
    """Shape [tokens]. A row that has been summed up stays as it is."""
    if row.ndim == 1:
        return row
    found: Row = row.max(axis=0) if how == "max" else row.mean(axis=0)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class AttentionMap:
    """The last layer's attention over a text that ends in the sentence under judgement.

    Attributes:
        text: what was attended to.
        asked: where in it the question and the answer so far stand; examples, passages and labels are not
            asked about.
        sentence: where the sentence begins.
        offsets: of each token in `text`.
        rows: of each token, its attention over the tokens up to itself; None where it is not known.
    """

    text: str
    asked: tuple[Offsets, Offsets]
    sentence: int
    offsets: tuple[Offsets, ...]
    rows: tuple[Row | None, ...]

    def with_answer(self, said: str) -> "AttentionMap":
        """The same with another text of the answer, the sentence included, of the same length."""
        start = self.asked[1][0]
        return replace(self, text=self.text[:start] + said + self.text[start + len(said) :])

    def influence(self, start: int, end: int, heads: Heads) -> float:
        """The greatest attention that a token behind `end` pays to one in the sentence's `start` to `end`."""
        return self.max_attention_to(*self._covering(self.sentence + start, self.sentence + end), heads)

    def max_attention_to(self, first: int, last: int, heads: Heads) -> float:
        """The greatest attention that a later token pays to one of the tokens `first` to `last`."""
        later = (row[..., first:last] for row in self.rows[last:] if row is not None)
        return max((float(over_heads(row, heads).max(initial=0.0)) for row in later), default=0.0)

    def attended_words_before(
        self, at: int, linguistics: Linguistics, heads: Heads
    ) -> list[tuple[str, float]]:
        """The words with content of question and answer before offset `at` of the sentence, each with the
        attention to it.

        That is the row of the token before `at`, which predicted what stands there; where it is not known, of
        the one at `at`, or else of the last one before. Without any row, no words.
        """
        place, _ = self._covering(self.sentence + at, self.sentence + at + 1)
        known = self._first_known((place - 1, place, *range(place - 2, -1, -1)), heads)
        if known is None:
            return []
        found, (_, weights) = [], known
        for begin, end in self._asked_before(self.sentence + at):
            for word in linguistics.content_words(self.text[begin:end]):
                start, stop = (begin + offset for offset in word)
                first, last = self._covering(start, stop)
                found.append((self.text[start:stop], float(weights[first:last].sum())))
        return found

    def context_of(self, token: int, top_tokens: int, heads: Heads, *, whole: bool) -> str:
        """QFS as the DRAGIN paper has it: the `top_tokens` tokens before `token` that it attends to most, as
        words, in the order of the text.

        Tokens that write no part of a word with a letter or digit are passed over: control tokens, line
        breaks and dashes stand for nothing that could be asked.

        Args:
            token: its place among all tokens. Where it has no row, the last one before it that has counts.
            whole: every token before it is a candidate, those of examples, passages and instructions, too,
                rather than those of question and answer alone.
        """
        known = self._first_known(range(token, -1, -1), heads)
        if known is None:
            return ""
        token, weights = known
        place = self.offsets[token][0]
        regions = ((0, place),) if whole else self._asked_before(place)
        spans = [word.span() for region in regions for word in _SPACED.finditer(self.text, *region)]
        words = [span for span in spans if any(map(str.isalnum, self.text[slice(*span)]))]
        written = [range(*self._covering(*span)) for span in words]
        candidates = sorted({at for tokens in written for at in tokens if at < token})
        chosen = frozenset(sorted(candidates, key=lambda at: -weights[at])[:top_tokens])
        return " ".join(
            self.text[slice(*span)]
            for span, tokens in zip(words, written, strict=True)
            if not chosen.isdisjoint(tokens)
        )

    def _asked_before(self, place: int) -> tuple[Offsets, Offsets]:
        """Question, and answer so far up to `place`."""
        question, (start, _) = self.asked
        return question, (start, place)

    def _first_known(self, tokens: Iterable[int], heads: Heads) -> tuple[int, Row] | None:
        """The first of some tokens whose row is known, and that row, summed up over heads."""
        inside = ((at, self.rows[at]) for at in tokens if 0 <= at < len(self.rows))
        return next(((at, over_heads(row, heads)) for at, row in inside if row is not None), None)

    def _covering(self, start: int, end: int) -> tuple[int, int]:
        """The range of tokens that write a character of `start` to `end`, or a part of one."""
        begins, ends = itemgetter(0), itemgetter(1)
        # A token without text is the first part of the character where it stands.
        first = min(bisect_right(self.offsets, start, key=ends), bisect_left(self.offsets, start, key=begins))
        return first, max(first, bisect_left(self.offsets, end, key=begins))


async def attention_map_of(written: Generation, question: str, so_far: str, run: Run) -> AttentionMap:
    """The attention of the model in the role attend, if there is one, or else of the one that wrote."""
    if "attend" in run.models:
        return await proxy_attention_map(written, question, so_far, run.models["attend"])
    return model_attention_map(written, question, so_far, run.model)


def model_attention_map(written: Generation, question: str, so_far: str, model: Model) -> AttentionMap:
    """The answering model's own attention while it wrote."""
    prompt = [" " if text is None else text for text in token_texts(written.prompt_ids, model)]
    tokens = (*written.tokens, *written.dropped)
    texts = [*prompt, *(token.text for token in tokens)]
    text, sentence = "".join(texts), sum(map(len, prompt))
    rows = (*[None] * len(prompt), *(token.attention for token in tokens))
    asked, answer = " ".join(question.split()), sentence - len(so_far)
    place = question_offsets(asked, text, answer)
    return AttentionMap(text, (place, (answer, sentence)), sentence, token_offsets(texts, text), rows)


def question_offsets(asked: str, text: str, end: int) -> Offsets:
    """Where the question stands last before `end`.

    A tokenizer may change white space and letter case. Where it changes more, all before `end` is asked
    about.
    """
    begin = text.rfind(asked, 0, end)
    if begin >= 0:
        return begin, begin + len(asked)
    form = r"\s*".join(map(re.escape, asked.split()))
    found = list(re.finditer(form, text[:end], re.IGNORECASE))
    return found[-1].span() if found else (0, end)


async def proxy_attention_map(written: Generation, question: str, so_far: str, proxy: Model) -> AttentionMap:
    """The attention of another model, which reads question, answer so far and sentence in one pass."""
    asked = " ".join(question.split())
    label = "Question: "
    before = f"{label}{asked}\nAnswer:{so_far}"
    text = before + "".join(token.text for token in (*written.tokens, *written.dropped))
    attention = await proxy.attend(text, bos=True)
    rows = tuple(attention.weights[:, at, : at + 1] for at in range(attention.weights.shape[1]))
    regions = ((len(label), len(label) + len(asked)), (len(before) - len(so_far), len(before)))
    return AttentionMap(text, regions, len(before), token_offsets(attention.texts, text), rows)


def heaviest_words(words: Sequence[tuple[str, float]], most: int) -> str:
    """The `most` words of the greatest weights, in the order of the text."""
    ranked = sorted(range(len(words)), key=lambda at: -words[at][1])[:most]
    return " ".join(words[at][0] for at in sorted(ranked))


def token_texts(ids: TokenIds, model: Model) -> list[str | None]:
    """The text that each token completes: empty for a character's first parts, None for control tokens."""
    control = {id for id in set(ids) if is_control_token(id, model)}
    texts, begin = list[str | None](), 0
    for at, id in enumerate(ids):
        text = None if id in control else model.decode(ids[begin : at + 1])
        is_part = text is not None and text.endswith(_REPLACEMENT)
        is_whole = not is_part or at + 1 - begin >= _MOST_TOKENS_OF_A_CHARACTER or at + 1 == len(ids)
        texts.append(text if is_whole else "")
        begin = at + 1 if is_whole else begin
    return texts


def is_control_token(id: int, model: Model) -> bool:
    """Whether a token is a control token: the one that its own text gives only where that text is trusted."""
    text = model.decode((id,))
    return model.tokenize(text) != (id,) == model.tokenize((Span(text),))
