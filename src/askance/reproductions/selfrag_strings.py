"""Questions as the Self-RAG authors' scripts ask them, and answers as they write them out."""

import re
from collections.abc import Sequence

from askance.core.types import Citation, Passage, Question
from askance.methods.selfrag.tasks import Separator, Task, asked_text, shown_options
from askance.methods.selfrag.tokens import ALL_TOKENS, KEEP_USING
from askance.text.options import lettered
from askance.text.sentences import sentence_spans

Told = tuple[str, Passage]
"""The text of a segment, control tokens included, and the passage that it was written with."""

END = "</s>"
"""How a text of theirs shows the end token, where it shows it."""

_STRIPPED = [token for token in ALL_TOKENS if token != KEEP_USING]
_GOES_ON = f".{KEEP_USING}"
_UNSPACED = re.compile(r"(?<=\w)([.!?])(?=\w)")


def asked_with(question: Question, task: Task, separator: Separator, form: str) -> tuple[str, Separator]:
    """What is asked, and what stands before it: separators differ by task from those of the training data."""
    shown = _four_options(shown_options(question)) if task == "choice" else ()
    if separator == "auto" and form == "short":
        separator = "choice" if task == "choice" else "short_form"
    return asked_text(question, shown), "training" if separator == "auto" else separator


def _four_options(shown: Sequence[str]) -> Sequence[str]:
    """Options as the authors' script for ARC shows them: A to D, of which D may be empty; E never.

    Ours: where A, B or C is missing, on which the script fails, the options stay as they are.
    """
    texts = dict(lettered(shown).values())
    if not {"A", "B", "C"} <= texts.keys():
        return shown
    return [f"{letter}: {texts.get(letter, '')}" for letter in "ABCD"]


def bare(text: str) -> str:
    """`text` without control tokens and the end token.

    Their list of control tokens lacks "continue to use evidence", which stays.
    """
    for token in (*_STRIPPED, END):
        text = text.replace(token, "")
    return text


def closed_text(text: str) -> str:
    """An answer by which closed questions group (their `postprocess_answer_option_conditioned`)."""
    return bare(text).replace("\n", "").replace("<|endoftext|>", "")


def without_sign(text: str) -> str:
    """`text` without a single "#" or ":" that begins it."""
    return text[1:] if text.startswith(("#", ":")) else text


def segment_text(text: str) -> str:
    """A segment, or a whole long answer: no tokens, and one blank less at its beginning (`postprocess`)."""
    return bare(text).removeprefix(" ")


def spaced(text: str) -> str:
    """With a space behind each sentence, and also in "3.14" and "U.S" (their `fix_spacing`)."""
    return _UNSPACED.sub(r"\1 ", text)


def says_nothing(path: Sequence[Told]) -> bool:
    """Whether the script for ALCE's data sets takes the second path in place of this one.

    Its segments are joined by blanks; so two of nothing but control tokens are something.
    """
    return not whole_text(path)


def whole_text(path: Sequence[Told]) -> str:
    """The segments joined by blanks, the root's empty text before them."""
    return segment_text(" ".join(["", *(text for text, _ in path)]))


def kept_segments(path: Sequence[Told]) -> list[tuple[int, str, Passage]]:
    """The segments that the script for ALCE's data sets writes, each with its place in the path, from 1.

    Those whose text stood before are left out, and so are those that are not even control tokens.
    """
    kept = dict[str, tuple[int, str, Passage]]()
    for at, (told, passage) in enumerate(path, start=1):
        if told:
            kept.setdefault(segment_text(told), (at, segment_text(told), passage))
    return list(kept.values())


def cited_text(path: Sequence[Told]) -> tuple[str, tuple[Citation, ...]]:
    """What the script for ALCE's data sets makes of a path's segments.

    The last character of each becomes a full stop, whatever it was. In front of that stands the segment's
    place in the path: a text that stood before is left out, but counts; of a segment of nothing but control
    tokens the full stop is left. Where a sentence ends in front of "continue to use evidence", it cites [1],
    the first passage of all.

    Differs from theirs: the numbers are not in the text; and each stands for its segment's passage, where in
    their list of passages it may, behind a text left out, be another's or nobody's.
    """
    pieces, kept = list[tuple[str, int, Passage]](), kept_segments(path)
    for number, segment, passage in kept:
        *earlier, last = spaced(segment[:-1]).split(_GOES_ON)
        pieces += [(f"{piece}.", 1, kept[0][2]) for piece in earlier]
        pieces.append((f"{last}.", number, passage))
    return _joined(pieces)


def _joined(pieces: Sequence[tuple[str, int, Passage]]) -> tuple[str, tuple[Citation, ...]]:
    """The pieces behind each other; the last sentence of each cites, since the number stands at its end."""
    text, citations = "", list[Citation]()
    for piece, number, passage in pieces:
        text += (" " if text else "") + piece
        start = len(text) - len(piece)
        spans = sentence_spans(piece)[-1:] or [(0, len(piece))]
        citations.append(Citation(number, passage, start + spans[0][0], len(text)))
    return text, tuple(citations)
