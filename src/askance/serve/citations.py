"""Citations in an answer that is sent: as annotations, and as numbers with a list of sources in the text.

Only `Answer.citations` becomes an annotation, a number or a source. Text that a model copied from a passage
can't pass for one (see `PlainText`), and titles lose their markup.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any
from urllib.parse import quote

from askance.core.answers import Answer, Citation
from askance.core.types import Passage
from askance.serve.plain_text import PlainText, plain_text

UrlOf = Callable[[Passage], str]
"""A function that returns the URL at which the server shows a passage."""
_MARKUP = re.compile(r"[\[\]()<>*_`|\\]")
_MAX_LINE = 120
_SOURCES = "\n\nSources:\n"
_UNSUPPORTED = "\n\nUnsupported:\n"
_NUMBERS = re.compile(r" \[\d+\]")


def passage_url(base: str, id: str, signature: str = "") -> str:
    """Return the URL of a passage. The id is quoted, also its slashes.

    Args:
        base: The address of the server, which ends with a slash.
        signature: What lets a browser open the passage without the API key.
    """
    query = f"?signature={signature}" if signature else ""
    return f"{base}v1/passages/{quote(id, safe='')}{query}"


def title_of(passage: Passage) -> str:
    """Return the title of a passage, or its id, and its page and section, on one line without Markdown."""
    return _line(", ".join(filter(None, (passage.title or passage.id, passage.place))))


def _line(text: str) -> str:
    line = " ".join(_MARKUP.sub(" ", text).split())
    return line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 1]}…"


def without_sources(content: str) -> str:
    """Return the text of an earlier answer without its numbers and its lists."""
    return _NUMBERS.sub("", content.partition(_SOURCES)[0].partition(_UNSUPPORTED)[0])


def numbered_content(answer: Answer, url_of: UrlOf) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of an answer with numbers and lists, and the annotations for OpenAI.

    The lists are those of the unsupported sentences and of the sources. The offsets of the annotations count
    characters of the returned text. Their field `unsupported` is the reason why the passage is no support.
    """
    text, citations = plain_text(answer.text), _in_order(answer.citations)
    offsets = [citation.end for citation in citations]
    markers = [_number(citation, text, citation.end) for citation in citations]
    lengths, annotations = [*accumulate(map(len, markers), initial=0)], []
    reasons = {each.end: each.why for each in answer.unsupported}
    for citation in citations:
        start = citation.start + lengths[bisect_right(offsets, citation.start)]
        end = citation.end + lengths[bisect_left(offsets, citation.end)]
        url, title = url_of(citation.passage), title_of(citation.passage)
        fields = {"url": url, "title": title, "start_index": start, "end_index": end}
        fields |= {"unsupported": reasons[citation.end]} if citation.end in reasons else {}
        annotations.append({"type": "url_citation", "url_citation": fields})
    pieces = map(slice, (0, *offsets), (*offsets, None))
    numbered = "".join(text[piece] + marker for piece, marker in zip(pieces, (*markers, ""), strict=True))
    if answer.abstained:
        numbered += f"\n\n{plain_text(answer.statement)}"
    unsupported = [f"- {_line(answer.text[each.start : each.end])}" for each in answer.unsupported]
    numbered += _UNSUPPORTED + plain_text("\n".join(unsupported)) if unsupported else ""
    passages = {citation.number: citation.passage for citation in citations}
    sources = [f"[{number}] {title_of(each)}: {url_of(each)}" for number, each in sorted(passages.items())]
    return numbered + (_SOURCES + "\n".join(sources) if sources else ""), annotations


@dataclass(slots=True)
class NumberedStream:
    """The beginning of the content of an answer, which is sent before the answer is complete.

    Attributes:
        num_sent: The number of characters sent.
    """

    num_sent: int = 0
    _plain: PlainText = field(default_factory=PlainText)
    _text: str = ""
    _has_begun: bool = False
    _num_leading: int = 0
    _num_text: int = 0
    _num_cited: int = 0

    def add(self, piece: str, until: int, citations: Sequence[Citation]) -> str:
        """Append committed text, and return what can be sent now.

        Args:
            until, citations: The offset and the citations of `Trace.settled`.
        """
        if not self._has_begun:  # the complete answer has no leading white space
            num_received, piece = len(piece), piece.lstrip()
            self._num_leading += num_received - len(piece)
            self._has_begun = bool(piece)
        self._text += self._plain.add(piece)
        until = max(self._num_text, min(until - self._num_leading, len(self._text.rstrip())))
        content = ""
        for citation in _in_order(citations)[self._num_cited :]:
            end = citation.end - self._num_leading
            if end >= until:  # what follows the number is not known yet
                break
            content += self._text[self._num_text : end] + _number(citation, self._text, end)
            self._num_text, self._num_cited = end, self._num_cited + 1
        content += self._text[self._num_text : until]
        self._num_text = until
        self.num_sent += len(content)
        return content


def _in_order(citations: Sequence[Citation]) -> list[Citation]:
    return sorted(citations, key=lambda citation: (citation.end, citation.number))


def _number(citation: Citation, text: str, end: int) -> str:
    """Return the number that follows ``text[:end]``. A parenthesis directly after it would make it a link."""
    return f" [{citation.number}]" + " " * text.startswith("(", end)
