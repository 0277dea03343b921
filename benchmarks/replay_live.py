"""Replay a recording of the DRAGIN authors' code, with its models, by asking the questions again.

The folder has `models/NAME` (a model that `hf:` loads), `traces_NAME.json.gz` and `corpus.json`. Everything
except search results is computed live, in float32 on the CPU. Search results are played back, because
passages with equal scores may come in any order.
"""

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from itertools import zip_longest
from pathlib import Path

import numpy as np

from askance.ask import ask
from askance.core.ports import Method, Model, WrappedModel
from askance.core.trace import Decided, Searched, Trace
from askance.core.types import (
    Demo,
    GenerateRequest,
    Generation,
    Hit,
    Passage,
    Question,
    TokenIds,
)
from askance.methods.common.prompts import PromptTemplate
from askance.text.linguistics import Linguistics
from benchmarks.recorded import Record, passage_block, split_demo

VALUES_WITHIN = 1e-4
"""The tolerance for recorded values, which are float32 sums with six digits. Every recorded decision has a
greater margin."""

MakeMethod = Callable[[Record, PromptTemplate, Linguistics], Method]


@dataclass(frozen=True, slots=True)
class Recording:
    """The recorded questions and answers of one model.

    Attributes:
        passages: The passages of the corpus, by id.
    """

    name: str
    record: Record
    passages: Mapping[str, Passage]

    def question(self, result: Record) -> Question:
        asked = {each["qid"]: each["question"] for each in self.record["questions"]}
        return Question(result["qid"], asked[result["qid"]])


def read_recordings(folder: Path) -> Iterator[Recording]:
    """Yield every recording in a folder."""
    corpus = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
    passages = {each["id"]: Passage(each["id"], each["title"], each["text"]) for each in corpus}
    for path in sorted(folder.glob("traces_*.json.gz")):
        name = path.name.removeprefix("traces_").removesuffix(".json.gz")
        yield Recording(name, json.loads(gzip.decompress(path.read_bytes())), passages)


@dataclass(slots=True)
class Differences:
    """The differences between askance's and the recorded results for a question, by kind of comparison."""

    found: dict[str, tuple[object, object]] = field(default_factory=dict)

    def compare(self, what: str, ours: object, theirs: object) -> None:
        """Compare two results, and store the first difference of each kind."""
        if ours != theirs:
            self.found.setdefault(what, (ours, theirs))


def ask_anew(
    recording: Recording,
    run: Record,
    result: Record,
    model: Model,
    linguistics: Linguistics,
    make_method: MakeMethod,
) -> Differences:
    """Ask a recorded question again, and compare all intermediate and final results with the recording."""
    rounds = result["rounds"]
    demos = tuple(Demo(*split_demo(demo)) for demo in run.get("demos") or recording.record["demos"])
    instruction = run["instruction"] if "instruction" in run else _instruction(rounds, model)
    method = make_method(run, PromptTemplate(demos, "Context:", instruction), linguistics)
    watched, searches = Watched(model), PlayedSearches(rounds, recording.passages)
    trace, differences = Trace(), Differences()
    question = recording.question(result)
    answered = asyncio.run(ask(question, method, {"answer": watched}, searches, trace=trace))
    _compare_calls(watched.calls, rounds, differences)
    _compare_decisions(trace, rounds, differences)
    for ours, theirs in zip_longest(searches.queries, searches.expected):
        differences.compare("searches", ours, theirs)
    num_searches = sum(isinstance(event, Searched) for event in trace.events)
    differences.compare("number of searches", num_searches, result["retrieve_count"])
    differences.compare("final texts", answered.answer.text, result["final_text"])
    return differences


def _instruction(rounds: list[Record], model: Model) -> str:
    """Return the line below the passages in the recorded prompts, or an empty string if none has passages."""
    prompts = (model.decode(tuple(e["prompt_ids"])) for e in rounds if e["kind"] == "generate")
    return next((block[1] for block in map(passage_block, prompts) if block), "")


def _digest(ids: TokenIds) -> str:
    return sha1(",".join(map(str, ids)).encode(), usedforsecurity=False).hexdigest()


def _compare_calls(
    calls: Sequence[tuple[TokenIds, int, TokenIds]], rounds: list[Record], differences: Differences
) -> None:
    ours = [(_digest(prompt), max_tokens, ids) for prompt, max_tokens, ids in calls]
    generated = [entry for entry in rounds if entry["kind"] == "generate"]
    theirs = [(each["prompt_ids_sha1"], each["max_new"], tuple(each["new_ids"])) for each in generated]
    for our, their in zip_longest(ours, theirs, fillvalue=(None, None, None)):
        for what, one, other in zip(("prompts", "lengths", "generated ids"), our, their, strict=True):
            differences.compare(what, one, other)


def _compare_decisions(trace: Trace, rounds: list[Record], differences: Differences) -> None:
    recorded = [entry for entry in rounds if entry["kind"] == "decision"]
    decided = [each for each in trace.decisions if each.name == "retrieve"]
    if recorded:
        ours = [each.outcome == "search" for each in decided]
        differences.compare("decisions", ours, [entry["hallucination"] for entry in recorded])
    doubts = [each for each in decided if each.outcome == "search"]
    triggers = [entry for entry in recorded if entry["hallucination"]]
    for doubt, entry in zip(doubts, triggers, strict=False):
        differences.compare("kept texts", doubt.numbers["kept characters"], len(entry["prev"]))
        _compare_doubt(doubt, entry, differences)
    queries = [entry["query"] for entry in rounds if entry["kind"] == "retrieve"]
    for ours_, theirs in zip_longest((doubt.query for doubt in doubts), queries):
        differences.compare("queries", ours_, theirs)


def _compare_doubt(doubt: Decided, entry: Record, differences: Differences) -> None:
    if "hit" in entry:
        differences.compare("words", [word.text for word in doubt.words], entry["curr_tokens"])
        differences.compare("hits", [int(word.is_hit) for word in doubt.words], entry["hit"])
    theirs = entry["values"] if "values" in entry else entry["entity_values"][entry["sentence"]]
    ours = [word.value for word in doubt.words]
    differences.compare("number of values", len(ours), len(theirs))
    if len(ours) == len(theirs) and not np.allclose(ours, theirs, rtol=0, atol=VALUES_WITHIN):
        differences.compare("values", ours, theirs)


class Watched(WrappedModel):
    """A model wrapper that records, for each call, its prompt, its token limit and all generated tokens."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.calls: list[tuple[TokenIds, int, TokenIds]] = []

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        found = await super().generate(request)
        ids = tuple(token.id for token in (*found[0].tokens, *found[0].dropped))
        self.calls.append((found[0].prompt_ids, request.sampling.max_tokens, ids))
        return found


class PlayedSearches:
    """A `Retriever` that plays back the recorded searches in order, regardless of the query."""

    name, fingerprint = "recorded", ""

    def __init__(self, rounds: list[Record], passages: Mapping[str, Passage]) -> None:
        self._entries = [entry for entry in rounds if entry["kind"] == "retrieve"]
        self._passages = passages
        self.queries: list[str] = []

    @property
    def expected(self) -> list[str]:
        return [entry["query_truncated"] for entry in self._entries]

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        self.queries.append(query)
        entries = self._entries[len(self.queries) - 1 :]
        if not entries:
            return ()
        scored = zip(entries[0]["doc_ids"], entries[0]["scores"], strict=True)
        found = [(self._passages[id], score) for id, score in scored if score is not None][:k]
        return tuple(Hit(passage, score, rank) for rank, (passage, score) in enumerate(found, start=1))


def replay_folder(folder: Path, linguistics: Linguistics, make_method: MakeMethod, most_shown: int) -> int:
    """Ask all recorded questions again, print a table, and return the number of questions that differ."""
    from askance.models.hf import load_hf

    lines, total, num_shown = [], Counter[str](), 0
    for recording in read_recordings(folder):
        model = load_hf(str(folder / "models" / recording.name), device="cpu", dtype="float32")
        for run in recording.record["runs"]:
            kinds, num_different = Counter[str](), 0
            for result in run["results"]:
                found = ask_anew(recording, run, result, model, linguistics, make_method).found
                kinds.update(found.keys())
                num_different += bool(found)
                if found and num_shown < most_shown:
                    num_shown += 1
                    _show(f"{recording.name}, {run['name']}, {result['qid']}", found)
            total.update({"questions": len(run["results"]), "different": num_different})
            threshold = run["settings"].get("hallucination_threshold", "")
            what = ", ".join(f"{kind} {number}" for kind, number in kinds.items())
            place = f"| {recording.name} | {run['name']} | {threshold} "
            lines.append(f"{place}| {len(run['results'])} | {num_different} | {what} |")
    print("| tokenizer | run | threshold | questions | with a difference | in |\n|---|---|---|---|---|---|")
    print("\n".join(lines))
    print(f"\n{total['different']} of {total['questions']} questions with a difference")
    return total["different"]


def _show(where: str, found: Mapping[str, tuple[object, object]]) -> None:
    print(where)
    for what, (ours, theirs) in found.items():
        print(f"  {what}:\n    ours   {ours!r}\n    theirs {theirs!r}")
