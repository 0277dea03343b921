"""Your own questions as JSON Lines (or a JSON array); see `own` for the fields.

    {"question": "Which river flows through Bonn?", "answers": ["Rhine", "the Rhine"], "supporting": ["Bonn"]}

becomes an open question with the id "1", two golds and one supporting title. With

    "paragraphs": [{"title": "Bonn", "text": "Bonn is old. It lies on the Rhine.",
                    "evidence": ["It lies on the Rhine."]}]

it has a paragraph whose second sentence is evidence. FlashRAG's files of any dataset can be read, too.
"""

from askance.eval.datasets.layouts import reader
from askance.eval.datasets.own import OwnRecord

SHAPE = (
    'A line is {"question": "…", "answers": ["…"]}, with "id", "task" ("open", "yes_no", "choice"), '
    '"options", "supporting", "type", "hops", "paragraphs" ([{"text": "…", "title": "…", '
    '"evidence": ["…"]}]), "facts" (["…"]), "steps" ([{"question": "…", "answer": "…"}]) and "triples" '
    '([["…", "…", "…"]]) as you like.'
)

read = reader(OwnRecord, SHAPE)
