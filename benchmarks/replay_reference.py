"""Replay recorded runs of the DRAGIN authors' code: python -m benchmarks.replay_reference FOLDER.

The folder has `models/NAME` (a model that `hf:` loads), `traces_NAME.json.gz` and `corpus.json`. The
questions are asked again, and everything except search results is computed live, in float32 on the CPU.
Search results are played back, because passages with equal scores may come in any order. The results of
askance must equal the recorded ones. The recording split sentences by spaCy's rules, so the script needs the
package (pip install spacy), but no spaCy model.
"""

import argparse
import asyncio
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from askance.ask import Engine
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
from askance.models.hf import load_hf
from askance.text.linguistics import Linguistics
from askance_lab.reproductions.baselines import (
    ClosedBookAuthors,
    FixedLengthAuthors,
    FixedSentenceAuthors,
    FlareEntity,
    FlareToken,
    SingleAuthors,
)
from askance_lab.reproductions.dragin import DraginAuthors

VALUES_WITHIN = 1e-4
"""The tolerance for recorded values, which are float32 sums with six digits. Every recorded decision has a
greater margin."""

MOST_SHOWN = 3
"""The number of questions whose differences are printed."""
Record = dict[str, Any]


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
) -> Differences:
    """Ask a recorded question again, and compare all intermediate and final results with the recording."""
    rounds = result["rounds"]
    demos = tuple(Demo(*split_demo(demo)) for demo in run.get("demos") or recording.record["demos"])
    instruction = run["instruction"] if "instruction" in run else _instruction(rounds, model)
    method = make_method(run, PromptTemplate(demos, "Context:", instruction), linguistics)
    watched, searches = Watched(model), PlayedSearches(rounds, recording.passages)
    trace, differences = Trace(), Differences()
    question = recording.question(result)
    answered = asyncio.run(Engine(method, {"answer": watched}, searches).answer(question, trace=trace))
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
    blocks = (re.search(r"^Context:\n(?:\[\d\] .*\n)+(.*)\n", each, flags=re.MULTILINE) for each in prompts)
    return next((block[1] for block in blocks if block), "")


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
        found: tuple[Generation, ...] = await super().generate(request)
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


def make_method(run: Record, template: PromptTemplate, linguistics: Linguistics) -> Method:
    settings = run["settings"]
    common: dict[str, Any] = {
        "ask_short_answer": False,
        "max_tokens": settings["generate_max_length"],
        "prompts": template,
    }
    match settings["method"]:
        case "dragin" | "attn_prob" as kind:
            return DraginAuthors(
                **common,
                threshold=settings["hallucination_threshold"],
                query=settings["query_formulation"],
                doubt="surprise" if kind == "attn_prob" else "entropy",
                query_top=settings.get("retrieve_keep_top_k", 25),
                query_share=settings.get("retrieve_keep_ratio"),
                real_words_only=settings["check_real_words"],
                space_marker=run["settings"].get("space_marker", "auto"),
                linguistics=linguistics,
            )
        case "token" | "entity" as kind:
            flare = FlareToken if kind == "token" else FlareEntity
            return flare(
                **common,
                threshold=settings["hallucination_threshold"],
                over_sentence=settings["sentence_solver"],
                query=settings["query_formulation"],
                linguistics=linguistics,
                **({} if kind == "token" else {"over_entity": settings["entity_solver"]}),
            )
        case "fix-length-retrieval":
            return FixedLengthAuthors(**common, every_tokens=settings["fix_length"])
        case "fix-sentence-retrieval":
            return FixedSentenceAuthors(**common, linguistics=linguistics)
        case "single-retrieval":
            return SingleAuthors(**common)
        case _:
            return ClosedBookAuthors(**common)


def split_demo(demo: str) -> tuple[str, str]:
    """Return the question and the answer of a recorded example."""
    asked, _, answer = demo.removeprefix("Question: ").partition("\nAnswer: ")
    return asked, answer


class RecordedLanguage:
    """The rules that the recording used instead of a spaCy model, for sentences and content words."""

    def __init__(self) -> None:
        import spacy

        self._read = spacy.blank("en")
        self._read.add_pipe("sentencizer")
        self.linguistics = Linguistics("recorded", self._sentences, self._content_spans, self._entities)

    def _sentences(self, text: str) -> tuple[str, ...]:
        return tuple(s.text.strip() for s in self._read(text).sents if s.text.strip())

    def _content_spans(self, text: str) -> tuple[tuple[int, int], ...]:
        real = (token for token in self._read(text) if _is_real(token))
        return tuple((token.idx, token.idx + len(token)) for token in real)

    def _entities(self, text: str) -> tuple[tuple[int, int], ...]:
        """Return the spans of the longest runs of numbers and capitalised content words."""
        runs = groupby(self._read(text), key=_is_of_entity)
        found = [tuple(tokens) for is_of_entity, tokens in runs if is_of_entity]
        return tuple((tokens[0].idx, tokens[-1].idx + len(tokens[-1])) for tokens in found)


def _is_real(token: Any) -> bool:
    if token.is_space or token.is_punct:
        return False
    return token.like_num or (not token.is_stop and any(c.isalnum() for c in token.text))


def _is_of_entity(token: Any) -> bool:
    return _is_real(token) and (token.like_num or token.text[0].isupper())


def replay_folder(folder: Path) -> int:
    """Ask all recorded questions again, print a table, and return the number of questions that differ."""
    linguistics = RecordedLanguage().linguistics
    lines, total, num_shown = [], Counter[str](), 0
    for recording in read_recordings(folder):
        model = load_hf(str(folder / "models" / recording.name), device="cpu", dtype="float32")
        for run in recording.record["runs"]:
            kinds, num_different = Counter[str](), 0
            for result in run["results"]:
                found = ask_anew(recording, run, result, model, linguistics).found
                kinds.update(found.keys())
                num_different += bool(found)
                if found and num_shown < MOST_SHOWN:
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


def main() -> None:
    """Replay all recordings of a folder, and exit with 1 if a question differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    raise SystemExit(bool(replay_folder(parser.parse_args().folder)))


if __name__ == "__main__":
    main()
