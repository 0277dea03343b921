"""What a recording of the DRAGIN authors' code tells about its searches, for asking its questions anew."""

from collections.abc import Callable, Iterator

from benchmarks.recorded import Record, passage_block

from askance.core.types import Demo, Hit, Passage, TokenIds
from askance.methods.wording import Wording

Decode = Callable[[TokenIds], str]
"""Of the ids of prompts, which show the passages."""


class RecordedPassages:
    """A `Retriever` that finds what was found for recorded queries. For any other, of all passages that were
    found for some, those that have most of its words.
    """

    name, fingerprint = "recorded passages", ""

    def __init__(self, record: Record, decode: Decode) -> None:
        self._by_query: dict[str, tuple[Passage, ...]] = {}
        for rounds in _all_rounds(record):
            searches = [entry for entry in rounds if entry["kind"] == "retrieve"]
            blocks = [found for found in map(passage_block, _prompts(rounds, decode)) if found]
            for entry, (bodies, _) in zip(searches, blocks, strict=False):
                passages = map(Passage, map(str, entry["doc_ids"]), entry["titles"], bodies)
                self._by_query[entry["query_truncated"]] = tuple(passages)
        self._all = {each.id: each for found in self._by_query.values() for each in found}

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        ranked = self._by_query.get(query) or self._ranked(query)
        found = [passage for passage in ranked if passage.id not in exclude][:k]
        return tuple(Hit(passage, 1 / rank, rank) for rank, passage in enumerate(found, start=1))

    def _ranked(self, query: str) -> list[Passage]:
        words = set(query.lower().split())

        def num_shared(passage: Passage) -> int:
            return len(words.intersection(f"{passage.title} {passage.text}".lower().split()))

        return sorted(self._all.values(), key=lambda each: (-num_shared(each), each.id))


def recorded_wording(record: Record, demos: tuple[Demo, ...], decode: Decode) -> Wording:
    """The recorded examples with the fixed lines around passages."""
    dragin = {"runs": dragin_runs(record)}
    prompts = (prompt for rounds in _all_rounds(dragin) for prompt in _prompts(rounds, decode))
    lines = (found[1] for found in map(passage_block, prompts) if found)
    return Wording(demos, "Context:", next(lines, ""))


def dragin_runs(record: Record) -> list[Record]:
    """Those of DRAGIN itself."""
    return [run for run in record["runs"] if run["settings"]["method"] == "dragin"]


def _all_rounds(record: Record) -> Iterator[list[Record]]:
    for run in record["runs"]:
        for result in run["results"]:
            yield result["rounds"]


def _prompts(rounds: list[Record], decode: Decode) -> Iterator[str]:
    return (decode(tuple(entry["prompt_ids"])) for entry in rounds if entry["kind"] == "generate")
