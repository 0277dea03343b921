"""2WikiMultihopQA: questions over two to four Wikipedia articles, made from Wikidata.

Ho et al. 2020, "Constructing A Multi-hop QA Dataset for Comprehensive Evaluation of Reasoning Steps" (arXiv
2011.01060). The file is a JSON array, for example ``dev.json`` with 12,576 questions, from
https://github.com/Alab-NII/2wikimultihop. Aliases of the answers are in a second file, ``id_aliases.json``,
JSON Lines by Wikidata id; it is found beside the first, or named. Licence: Apache-2.0.

    {"_id": "9b", "question": "Which river surrounds the birthplace of the author of Buddenbrooks?",
     "answer": "Trave", "answer_id": "Q4", "type": "compositional",
     "supporting_facts": [["Thomas Mann", 0], ["Lübeck", 2]], …}

and the alias line ``{"Q_id": "Q4", "aliases": ["River Trave"], …}`` become an open question of two hops with
the golds "Trave" and "River Trave". Paragraphs are HotpotQA's; `evidences`, [["Thomas Mann", "place of
birth", "Lübeck"], …], are the triples.

FlashRAG's layout has no Wikidata ids, so that aliases do not apply to it.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from askance.eval.datasets import Example
from askance.eval.datasets.grounds import Grounds, triples_of
from askance.eval.datasets.hotpotqa import HotpotRecord
from askance.eval.datasets.layouts import reader
from askance.eval.datasets.records import Id, MaybeBlank, Record, read_records, unique

ALIASES_NAME = "id_aliases.json"
SHAPE = (
    'A record of 2WikiMultihopQA is {"_id": "…", "question": "…", "answer": "…", "supporting_facts": '
    '[["TITLE", 0]], "type": "…", "answer_id": "Q42" or null}, with "context" ([["TITLE", ["SENTENCE"]]]) '
    'and "evidences" ([["…", "…", "…"]]) if known; '
    "the test split has no answers and can't be used."
)
ALIASES_SHAPE = 'A line of the aliases is {"Q_id": "Q42", "aliases": ["…"], "demonyms": ["…"]}.'


Evidence = Annotated[tuple[MaybeBlank, MaybeBlank, MaybeBlank], Field(strict=False)]
"""Subject, relation, object."""


class TwoWikiRecord(HotpotRecord):
    """`answer_id` is the Wikidata id of the answer, where it is an entity."""

    answer_id: str | None = None
    evidences: list[Evidence] = Field(default_factory=list)

    def grounds(self) -> Grounds:
        """The texts and the chain of facts."""
        return replace(super().grounds(), triples=triples_of(self.evidences))


class AliasRecord(Record):
    """Other names of a Wikidata entity. Demonyms are passed over, as DRAGIN does."""

    id: Id = Field(alias="Q_id")
    aliases: list[MaybeBlank]


def read(path: Path, aliases: str | None = None) -> Iterator[Example]:
    """The questions of one file; the aliases of an answer are golds, too, behind it."""
    beside = path.with_name(ALIASES_NAME)
    found = beside if aliases is None and beside.exists() else aliases and Path(aliases)
    names = _aliases(found) if found else {}

    class Named(TwoWikiRecord):
        def example(self, number: int) -> Example:
            golds = unique((self.answer, *names.get(self.answer_id or "", ())))
            return replace(super().example(number), golds=golds)

    return reader(Named, SHAPE, official_option="aliases" if aliases else "")(path)


def _aliases(path: Path) -> dict[str, tuple[str, ...]]:
    """By Wikidata id, lines with the same id together; blank names are left out."""
    names: dict[str, tuple[str, ...]] = {}
    for record in read_records(path, AliasRecord, ALIASES_SHAPE):
        given = (name for name in record.aliases if name.strip())
        names[record.id] = (*names.get(record.id, ()), *given)
    return names
