"""What a sentence looks back at, by characters: one form for a model's own attention and for a proxy's."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from askance.core.ports import Model
from askance.core.types import Generation
from askance.methods.qfs import token_texts
from askance.text.align import Offsets, token_offsets
from askance.text.words import WORD

Row = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Look:
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

    def influence(self, start: int, end: int) -> float:
        """The greatest attention that a token behind `end` pays to one in the sentence's `start` to `end`."""
        first, last = self._covering(self.sentence + start, self.sentence + end)
        behind = [
            row
            for (begin, _), row in zip(self.offsets[last:], self.rows[last:], strict=True)
            if row is not None and begin >= self.sentence + end
        ]
        return max((float(row[first:last].max()) for row in behind), default=0.0) if first < last else 0.0

    def words_before(self, at: int) -> list[tuple[str, float]]:
        """The words of question and answer before offset `at` of the sentence, each with its attention.

        That is the row of the token before `at`, which predicted what stands there; where it is not known, of
        the one at `at`, or else of the last one before. Without any row, no words.
        """
        row = self._row(self.sentence + at)
        if row is None:
            return []
        question, (start, _) = self.asked
        found = []
        for begin, end in (question, (start, self.sentence + at)):
            for match in WORD.finditer(self.text, begin, end):
                first, last = self._covering(*match.span())
                found.append((match.group(), float(row[first:last].sum())))
        return found

    def _row(self, place: int) -> Row | None:
        at, _ = self._covering(place, place + 1)
        before = self.rows[:at]
        rows = (*before[-1:], *self.rows[at : at + 1], *reversed(before[:-1]))
        return next((row for row in rows if row is not None), None)

    def _covering(self, start: int, end: int) -> tuple[int, int]:
        """The range of tokens that write a character of `start` to `end`, or a part of one."""
        begins, ends = itemgetter(0), itemgetter(1)
        # A token without text is the first part of the character where it stands.
        first = min(bisect_right(self.offsets, start, key=ends), bisect_left(self.offsets, start, key=begins))
        return first, max(first, bisect_left(self.offsets, end, key=begins))


def own_look(written: Generation, question: str, so_far: str, model: Model) -> Look:
    """The answering model's own attention while it wrote."""
    prompt = [" " if text is None else text for text in token_texts(written.prompt_ids, model)]
    tokens = (*written.tokens, *written.dropped)
    texts = [*prompt, *(token.text for token in tokens)]
    text, sentence = "".join(texts), sum(map(len, prompt))
    rows = (*[None] * len(prompt), *(token.attention for token in tokens))
    asked, answer = " ".join(question.split()), sentence - len(so_far)
    begin = text.rfind(asked, 0, answer)
    # A tokenizer that rewrites text may have changed the question: then all of the prompt is asked about.
    place = (begin, begin + len(asked)) if begin >= 0 else (0, answer)
    return Look(text, (place, (answer, sentence)), sentence, token_offsets(texts, text), rows)


async def proxy_look(
    written: Generation, question: str, so_far: str, proxy: Model, heads: Literal["max", "mean"]
) -> Look:
    """The attention of another model, which reads question, answer so far and sentence in one pass."""
    asked = " ".join(question.split())
    label = "Question: "
    before = f"{label}{asked}\nAnswer:{so_far}"
    text = before + "".join(token.text for token in (*written.tokens, *written.dropped))
    attention = await proxy.attend(text, bos=True)
    over: Row = attention.weights.max(axis=0) if heads == "max" else attention.weights.mean(axis=0)
    rows = tuple(row[: at + 1] for at, row in enumerate(over))
    regions = ((len(label), len(label) + len(asked)), (len(before) - len(so_far), len(before)))
    return Look(text, regions, len(before), token_offsets(attention.texts, text), rows)


def weightiest(words: Sequence[tuple[str, float]], most: int) -> str:
    """The `most` words of the greatest weights, in the order of the text."""
    ranked = sorted(range(len(words)), key=lambda at: -words[at][1])[:most]
    return " ".join(words[at][0] for at in sorted(ranked))
