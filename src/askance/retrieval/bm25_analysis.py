"""The text analysis of BM25, which turns titles, texts and queries into terms (stop words, stemming).

The steps are those of Lucene's English analyser, which the published systems used: lowercasing, removal of
possessive endings and stop words, and stemming. In addition, Unicode compatibility forms are normalised
(NFKC), so that the ligatures of a PDF match the letters of a query.
"""

import re
import unicodedata
from dataclasses import dataclass

import tantivy

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")

_STEMMER = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    .filter(tantivy.Filter.stemmer("english"))
    .build()
)

STOP_WORDS = frozenset(
    """a an and are as at be but by for if in into is it no not of on or such that the their then there these
    they this to was will with""".split()
)
"""The stop words of Lucene's English analyser."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The text analysis that turns text into terms. Queries must be analysed like the passages of the index.

    Attributes:
        stop_words: True if the most frequent English words are left out.
        stemming: True if words are reduced to their stems (Snowball English), so that "rivers" finds "river".
    """

    stop_words: bool = True
    stemming: bool = True

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text`, in order and with repetitions. No term contains white space."""
        plain = unicodedata.normalize("NFKC", text).replace("’", "'").lower()
        words = [word.removesuffix("'s") for word in _WORD.findall(plain)]
        if self.stop_words:
            words = [word for word in words if word not in STOP_WORDS]
        return _STEMMER.analyze(" ".join(words)) if self.stemming else words
