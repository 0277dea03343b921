"""How replies of AirRAG's analysis and query transformation are read: as queries, one a line.

The format is the paper's (Feng et al. 2025, arXiv 2501.10053, appendix). What models write beside it, or in
its place, is passed over: headings, announcements, statements. Tests have what the bundled models wrote.
"""

import re

from askance.methods.airrag.prompts import unquoted
from askance.text.answers import normalise_answer

MOST_QUERIES = 4
"""The paper's cap on the iterations of one path, and ours on the queries of one plan."""
STOPS = ("\nQuestion:", "\nContext:", "\nKnown:")
"""In a chat. A blank line is no end: many models announce their list, and leave one before it."""

_LEAD = re.compile(
    r"^(?:#{1,6}\s+|[-*•–—+]\s+|\(?\d{1,2}[.)](?!\d)\s*|\d:\s+|\(?[a-z]\)\s+"
    r"|\**(?:next |sub-?|follow-?up )?(?:query|queries|questions?)(?: \d+)?\**:\**(?:\s+|$))+",
    re.IGNORECASE,
)
"""The mark of a heading, a bullet, a number or a label; not an initial ("J. Joyce"), nor a number that is a
word ("3:10", "1.5").
"""
_HEADING_OR_CODE = re.compile(
    r"\s*(?:\*\*[^*?]*\*\*\s*$"
    r"|(?:#{1,6}\s|```|(?:SELECT|FROM|WHERE|JOIN|ORDER BY|GROUP BY|LIMIT)\b)[^?]*$)"
)
"""Small models take a query for one in SQL."""
_NO_QUERY = re.compile(
    r"(?:none|nothing|na|no(?: (?:further |more |other )?(?:sub)?(?:quer(?:y|ies)|questions?))?)"
    r"(?: (?:is |are )?(?:needed|necessary|required|gained))?"
    r"|(?:sub|follow ?up )?(?:queries|questions)"
)
_NONE_AND_WHY = re.compile(r"none\s*[.,:;(–—-]", re.IGNORECASE)
_ASKS = re.compile(
    r"(?:(?:in|on|at|by|for|from|to|of|with|under|during|after|before|since|until) )?"
    r"(?:who|whom|whose|what|which|when|where|why|how)\b"
    r"|(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b",
    re.IGNORECASE,
)
_COMMANDS = re.compile(
    r"(?:find|identify|determine|search|look|name|list|give|tell|describe|explain|check|compare|get)\b",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"(?:the|an?|it|he|she|they|this|that|there|these|those|i|you|we)\b"
    r"(?:$|.*(?<!that)(?<!who)(?<!which) (?:is|are|was|were|has|had|died|can|cannot|could|will|would)\b)",
    re.IGNORECASE,
)
"""Not "the film that was made in 1957"."""
_GOES_ON = re.compile(r"(?:[^\W\d_]{4}|\d|\))[.!]\s+[^\W\d_a-z]")
"""A new sentence; not behind an initial or "Mrs."."""
_MARKS = "\"'”’*_) "


def parse_queries(text: str, most: int = MOST_QUERIES) -> tuple[str, ...]:
    """The queries of a reply of SAY or QT, one a line, each once; none where it says that none is needed.

    Bullets, numbers, labels and the quotation marks around a query go. `None` beside queries is passed over,
    and so are headings, code, a line that ends in a colon, which only announces them, and one that states
    something: small models answer where they should ask. What follows a question on its line is another
    question, or goes.
    """
    found: dict[str, str] = {}
    for line in (each for each in text.splitlines() if not _HEADING_OR_CODE.match(each)):
        for query in _queries_in(unquoted(_LEAD.sub("", unquoted(line)))):
            plain = normalise_answer(query)
            if any(map(str.isalnum, query)) and not _NO_QUERY.fullmatch(plain):
                found.setdefault(plain or query, query)
    return tuple(found.values())[:most]


def _queries_in(line: str) -> tuple[str, ...]:
    """Those of one line without its marks; a line without a question mark is one, or nothing."""
    questions = tuple(piece for piece in _parted(line) if piece.rstrip(_MARKS).endswith(("?", "？")))
    announces = line.rstrip(_MARKS).endswith(":")
    return questions or (() if announces or _NONE_AND_WHY.match(line) or _is_statement(line) else (line,))


def _parted(line: str) -> list[str]:
    """A line, parted behind each question mark where a new sentence begins."""
    pieces: list[str] = []
    for piece in re.split(r"(?<=\?)\s+", line):
        if pieces and not piece[:1].isupper():
            pieces[-1] = f"{pieces[-1]} {piece}"
        else:
            pieces.append(piece)
    return pieces


def _is_statement(line: str) -> bool:
    """Whether a line without a question says something, rather than what is to be found."""
    if _COMMANDS.match(line):
        return False
    if _ASKS.match(line):
        return _GOES_ON.search(line) is not None
    is_sentence = line.rstrip(_MARKS).endswith((".", "!", "…", "。"))
    return is_sentence or _GOES_ON.search(line) is not None or _STATES.match(line) is not None
