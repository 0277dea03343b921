"""Text analysis: from a text to the terms that stand for it in an index.

It happens here and nowhere else, for titles, texts and queries alike, so that every engine sees the same
terms. The steps are those of Lucene's English analyser, which the published systems used: words in lower
case, no possessive endings, no stop words, stems. Compatibility forms are unified (NFKC), so that the
ligatures of a PDF and the letters of a query are the same.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tantivy

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")

STOP_WORDS = frozenset(
    """a an and are as at be but by for if in into is it no not of on or such that the their then there these
    they this to was will with""".split()
)
"""The stop words of Lucene's English analyser."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """How texts become terms. An index answers only queries that are analysed as its passages were.

    Attributes:
        stop_words: leave out the most frequent English words.
        stemming: reduce English words to their stems (Snowball English), so that "rivers" finds "river".
    """

    stop_words: bool = True
    stemming: bool = True

    def terms(self, text: str) -> list[str]:
        """The terms of `text`, in order and with repetitions. No term contains white space."""
        plain = unicodedata.normalize("NFKC", text).replace("’", "'").lower()
        words = [word.removesuffix("'s") for word in _WORD.findall(plain)]
        if self.stop_words:
            words = [word for word in words if word not in STOP_WORDS]
        return _stemmer().analyze(" ".join(words)) if self.stemming else words


@cache
def _stemmer() -> "tantivy.TextAnalyzer":
    import tantivy

    words = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    return words.filter(tantivy.Filter.stemmer("english")).build()
