"""Replay recorded runs of the DRAGIN authors' code: python -m benchmarks.replay_reference PATH [--signals].

Generations, entropies, attentions and passages come from the record; everything that is decided or built from
them is askance's own and must be equal. What the record lacks (the attention behind a query, FLARE's
probabilities) is computed by the bundled model in float32. With --signals the bundled model computes the
recorded numbers, too. The recording split sentences with spaCy's rules: pip install spacy (no model).
"""

import argparse
import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from askance.ask import ask
from askance.core.ports import Method, Model
from askance.core.trace import Decided, Generated, Searched, Trace
from askance.core.types import (
    Attention,
    Demo,
    Generation,
    Hit,
    Key,
    Passage,
    Prompt,
    Question,
    Raw,
    Sampling,
    Span,
    Token,
    TokenIds,
    Until,
    Want,
    Watch,
)
from askance.methods.closed_book import ClosedBook
from askance.methods.dragin import Dragin
from askance.methods.fixed_length import FixedLength
from askance.methods.fixed_sentence import FixedSentence
from askance.methods.flare_token import FlareToken
from askance.methods.queries import Asking, QueryMode, formulate
from askance.methods.rind import Doubt, Weighed, first_doubt, influence, read_words, weigh
from askance.methods.single import Single
from askance.methods.wording import Wording
from askance.models.bundled import load_bundled
from askance.text.linguistics import Linguistics

Record = dict[str, Any]
TOLERANCE = 1e-4


class Tally:
    """Equal and total, by what was compared; the first differences are printed."""

    def __init__(self) -> None:
        self.equal: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.worst = {"attention": 0.0, "entropy": 0.0}

    def compare(self, what: str, ours: object, theirs: object) -> None:
        self.total[what] += 1
        self.equal[what] += ours == theirs
        if ours != theirs:
            print(f"{what} differs:\n  ours   {str(ours)[:300]!r}\n  theirs {str(theirs)[:300]!r}")


class RecordedAnswers:
    """A `Model` that plays the recorded generations with the recorded signals, on the bundled tokenizer."""

    def __init__(self, rounds: list[Record], inner: Any, space_marker: str, tally: Tally) -> None:
        self._rounds, self._inner, self._marker, self._tally = rounds, inner, space_marker, tally
        self._places = iter([at for at, entry in enumerate(rounds) if entry["kind"] == "generate"])
        self._influences: dict[TokenIds, list[float]] = {}
        self.name, self.context_tokens = "recorded", 1 << 20
        self.signals, self.capabilities = inner.signals, inner.capabilities

    async def generate(
        self,
        prompt: Prompt,
        sampling: Sampling,
        want: Want = Want(),
        until: Until | None = None,
        *,
        n: int = 1,
        key: Key,
        watch: Watch | None = None,
    ) -> tuple[Generation, ...]:
        at = next(self._places)
        entry = self._rounds[at]
        # The port tells how long a prompt is, but its ids only by computing them.
        prompt_ids = self._inner._prompts.encode(prompt)
        self._tally.compare("prompts by ids", list(prompt_ids), entry["prompt_ids"])
        self._tally.compare("generation lengths", sampling.max_tokens, entry["max_new"])
        ids = tuple(entry["new_ids"])
        entropies: list[float | None] = [None] * len(ids)
        logprobs: list[float | None] = [None] * len(ids)
        if want.entropy:
            entropies = [*self._recorded_signals(ids, self._rounds[at + 1])]
        if want.logprob:
            computed = await _again(self._inner, entry, want)
            self._tally.compare("regenerated ids", [token.id for token in computed], entry["new_ids"])
            logprobs = [token.logprob for token in computed]
        num_kept = len(ids) - (ids[-1] in self._inner._vocabulary.end_ids)
        tokens = [Token(id, "", 0, 0, logprobs[i], entropies[i]) for i, id in enumerate(ids)]
        text = self.decode(ids[:num_kept])
        return (Generation(text, tuple(tokens[:num_kept]), tuple(tokens[num_kept:])),)

    async def score(self, prompt: Prompt, options: object) -> tuple[Any, ...]:
        raise NotImplementedError("no replayed method scores")

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        if isinstance(text, str):
            return cast(Attention, await self._inner.attend(text, bos=bos))
        weights = np.zeros((1, len(text), len(text)), dtype=np.float32)
        weights[0, -1] = self._influences[text]
        return Attention(text, (), weights)

    def tokenize(self, text: str) -> TokenIds:
        return cast(TokenIds, self._inner.tokenize(text))

    def decode(self, ids: TokenIds) -> str:
        return cast(str, self._inner.decode(ids))

    def pieces(self, ids: TokenIds) -> tuple[str, ...]:
        return cast(tuple[str, ...], self._inner.pieces(ids))

    def count(self, prompt: Prompt) -> int:
        return cast(int, self._inner.count(prompt))

    def _recorded_signals(self, ids: TokenIds, recorded: Record) -> Iterator[float]:
        """Entropies of tokens that give the recorded ones of words; likewise the influences, kept aside."""
        words = read_words(ids, self.pieces(ids), self._marker, after_end=True)
        self._tally.compare("words", [word.text for word in words], recorded["words"])
        influences = []
        for word, summed, entropy in zip(words, recorded["attn"], recorded["entropy"], strict=True):
            influences += [summed] + [0.0] * (word.last - word.first - 1)
            yield from [entropy] * (word.last - word.first)
        self._influences[ids] = influences


class RecordedSearches:
    """A `Retriever` that finds what the recorded prompts show."""

    name = "recorded"

    def __init__(self, rounds: list[Record], decode: Any, tally: Tally) -> None:
        self._entries = iter([entry for entry in rounds if entry["kind"] == "retrieve"])
        prompts = [decode(entry["prompt_ids"]) for entry in rounds if entry["kind"] == "generate"]
        self._shown = iter([parsed for parsed in map(passage_block, prompts) if parsed])
        self._tally = tally

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        entry = next(self._entries)
        self._tally.compare("searches", query, entry["query_truncated"])
        bodies, _ = next(self._shown)
        passages = map(Passage, map(str, entry["doc_ids"]), entry["titles"], bodies)
        return tuple(Hit(passage, 1 / rank, rank) for rank, passage in enumerate(passages, start=1))


def passage_block(prompt: str) -> tuple[list[str], str] | None:
    """The passages of a recorded prompt and the line below them, which is the reference's own wording."""
    found = re.search(r"^Context:\n((?:\[\d\] .*\n)+)(.*)\n", prompt, flags=re.MULTILINE)
    if found is None:
        return None
    return [line.partition("] ")[2] for line in found[1].splitlines()], found[2]


class RecordedLanguage:
    """The stand-ins that the recording names: spaCy's rule for sentences, and one for content words."""

    def __init__(self) -> None:
        import spacy

        self._read = spacy.blank("en")
        self._read.add_pipe("sentencizer")
        self.linguistics = Linguistics("recorded", self._sentences, self._real_words)

    def count_sentences(self, text: str) -> int:
        """Blank ones included."""
        return sum(1 for _ in self._read(text).sents)

    def _sentences(self, text: str) -> tuple[str, ...]:
        return tuple(s.text.strip() for s in self._read(text).sents if s.text.strip())

    def _real_words(self, text: str) -> frozenset[str]:
        return frozenset(token.text for token in self._read(text) if _is_real(token))


def _is_real(token: Any) -> bool:
    if token.is_space or token.is_punct:
        return False
    return token.like_num or (not token.is_stop and any(c.isalnum() for c in token.text))


def make_method(run: Record, wording: Wording, linguistics: Linguistics) -> Method:
    settings = run["settings"]
    tokens = settings["generate_max_length"]
    kind = settings["method"]
    if kind == "dragin":
        return Dragin(
            profile="code",
            threshold=settings["hallucination_threshold"],
            query=settings["query_formulation"],
            query_top=settings["retrieve_keep_top_k"],
            max_tokens=tokens,
            real_words_only=settings["check_real_words"],
            space_marker=_marker(run),
            linguistics=linguistics,
            wording=wording,
        )
    if kind == "fix-length-retrieval":
        return FixedLength(every_tokens=settings["fix_length"], max_tokens=tokens, wording=wording)
    if kind == "fix-sentence-retrieval":
        return FixedSentence(max_tokens=tokens, linguistics=linguistics, wording=wording)
    if kind == "token":
        return FlareToken(
            threshold=settings["hallucination_threshold"],
            over_sentence=settings["sentence_solver"],
            query=settings["query_formulation"],
            max_tokens=tokens,
            linguistics=linguistics,
            wording=wording,
        )
    if kind == "single-retrieval":
        return Single(profile="code", max_tokens=tokens, wording=wording)
    return ClosedBook(profile="code", max_tokens=tokens, wording=wording)


def _marker(run: Record) -> str:
    return "▁" if "as shipped" in run["name"] else "auto"


def replay(record: Record, run: Record, inner: Any, language: RecordedLanguage, with_signals: bool) -> Tally:
    """Compare everything that can be compared of one run."""
    tally, linguistics = Tally(), language.linguistics
    demos = tuple(Demo(*_split_demo(demo)) for demo in record["demos"])
    asked = {question["qid"]: question["question"] for question in record["questions"]}
    marker = _marker(run).replace("auto", "Ġ")
    for result in run["results"]:
        rounds = result["rounds"]
        prompts = [inner.decode(tuple(e["prompt_ids"])) for e in rounds if e["kind"] == "generate"]
        lines = [parsed[1] for parsed in map(passage_block, prompts) if parsed]
        method = make_method(run, Wording(demos, "Context:", lines[0] if lines else ""), linguistics)
        question = Question(result["qid"], asked[result["qid"]])
        asyncio.run(replay_rules(run, question, rounds, inner, marker, linguistics, tally))
        model = RecordedAnswers(rounds, inner, marker, tally)
        retriever = RecordedSearches(rounds, inner.decode, tally)
        trace = Trace()
        try:
            answered = asyncio.run(ask(question, method, {"answer": model}, retriever, trace=trace))
            tally.compare("final texts", answered.answer.text, result["final_text"])
        except StopIteration:
            tally.compare("final texts", "one call too many", result["final_text"])
        compare_decisions(trace, rounds, tally)
        compare_counters(trace, result, inner, language, tally)
        if with_signals:
            asyncio.run(compare_signals(rounds, inner, marker, tally))
    return tally


def _split_demo(demo: str) -> tuple[str, str]:
    asked, _, answer = demo.removeprefix("Question: ").partition("\nAnswer: ")
    return asked, answer


async def replay_rules(
    run: Record,
    question: Question,
    rounds: list[Record],
    inner: Model,
    marker: str,
    linguistics: Linguistics,
    tally: Tally,
) -> None:
    """From the recorded words alone: decision, kept prefix, hits, and the queries of all modes."""
    settings = run["settings"]
    for at, entry in enumerate(rounds):
        if entry["kind"] != "rind_inputs":
            continue
        draft, decided = rounds[at - 1]["text"], rounds[at + 1]
        weighed = Weighed(tuple(entry["words"]), tuple(entry["attn"]), tuple(entry["entropy"]))
        threshold, real = settings["hallucination_threshold"], settings["check_real_words"]
        doubt = first_doubt(draft, weighed, threshold, linguistics, real_words_only=real)
        tally.compare("decisions", doubt is not None, decided["hallucination"])
        tally.compare("kept prefixes", draft if doubt is None else doubt.kept, decided["prev"])
        tally.compare("hits", doubt and [int(hit) for hit in doubt.hits], decided["hit"])
        tally.compare("sentences", doubt and list(doubt.words), decided["curr_tokens"])
        if doubt is not None:
            await _replay_queries(question, doubt, decided, settings, marker, linguistics, inner, tally)


async def _replay_queries(
    question: Question,
    doubt: Doubt,
    decided: Record,
    settings: Record,
    marker: str,
    linguistics: Linguistics,
    inner: Model,
    tally: Tally,
) -> None:
    top = settings["retrieve_keep_top_k"]
    asking = Asking(question.text, decided["text_before"], doubt, linguistics, marker, top)
    for mode, query in decided["mode_queries"].items():
        ours = await formulate(cast(QueryMode, mode), asking, inner)
        tally.compare("queries of other modes", ours, query)


def compare_decisions(trace: Trace, rounds: list[Record], tally: Tally) -> None:
    """What the whole method decided and asked, in order."""
    recorded = [entry for entry in rounds if entry["kind"] == "decision"]
    ours = [decision for decision in trace.decisions if decision.name == "retrieve"]
    if recorded:
        flags = [decision.outcome == "search" for decision in ours]
        tally.compare("rounds", flags, [entry["hallucination"] for entry in recorded])
    queries = [entry["query"] for entry in rounds if entry["kind"] == "qfs"]
    searched = [decision.query for decision in ours if decision.outcome == "search"]
    for our, their in zip(searched, queries, strict=False):
        tally.compare("QFS queries", our, their)


def compare_counters(
    trace: Trace, result: Record, inner: Model, language: RecordedLanguage, tally: Tally
) -> None:
    """The reference's bookkeeping, read from the trace and the recorded texts."""
    texts = [entry["text"] for entry in result["rounds"] if entry["kind"] == "generate"]
    generated = [event for event in trace.events if isinstance(event, Generated)]
    doubts = [e for e in trace.events if isinstance(e, Decided) and e.outcome == "search" and e.words]
    ours = {
        "retrieve_count": sum(isinstance(event, Searched) for event in trace.events),
        "generate_count": len(generated),
        "hallucinated_count": len(doubts),
        "token_count": sum(inner.count(Raw((Span(text),))) for text in texts),
        "sentence_count": sum(map(language.count_sentences, texts)),
    }
    tally.compare("counters", ours, result["counter"])
    tally.compare("search counts", ours["retrieve_count"], result["retrieve_count"])


async def compare_signals(rounds: list[Record], inner: Any, marker: str, tally: Tally) -> None:
    """The bundled model's own entropies and attentions against the recorded ones."""
    for at, entry in enumerate(rounds):
        if entry["kind"] != "rind_inputs":
            continue
        recorded = rounds[at - 1]
        tokens = await _again(inner, recorded, Want(entropy=True))
        ids = tuple(recorded["new_ids"])
        tally.compare("generated ids (signals)", tuple(token.id for token in tokens), ids)
        pieces = inner.pieces(ids)
        words = read_words(ids, pieces, marker, after_end=True)
        attention = influence((await inner.attend(ids, bos=False)).weights, pieces[0]).tolist()
        weighed = weigh(words, attention, [token.entropy or 0.0 for token in tokens])
        for what in ("attention", "entropy"):
            theirs = entry["attn" if what == "attention" else what]
            most = float(np.abs(np.array(getattr(weighed, what)) - np.array(theirs)).max())
            tally.total[f"{what} within {TOLERANCE:g}"] += 1
            tally.equal[f"{what} within {TOLERANCE:g}"] += most <= TOLERANCE
            tally.worst[what] = max(most, tally.worst[what])


async def _again(inner: Any, entry: Record, want: Want) -> tuple[Token, ...]:
    prompt = Raw((tuple(entry["prompt_ids"]),))
    (computed,) = await inner.generate(prompt, Sampling(entry["max_new"]), want, key=("replay",))
    return (*computed.tokens, *computed.dropped)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--signals", action="store_true")
    options = parser.parse_args()
    record = json.loads(options.path.read_text(encoding="utf-8"))
    inner = load_bundled(device="cpu", dtype="float32")
    language = RecordedLanguage()
    differences = 0
    for run in record["runs"]:
        tally = replay(record, run, inner, language, options.signals)
        threshold = run["settings"].get("hallucination_threshold")
        print(f"\n{run['name']}, threshold {threshold}")
        if options.signals:
            print(f"  greatest difference: {tally.worst}")
        for what, total in tally.total.items():
            print(f"  {what:<28} {tally.equal[what]:>3} / {total}")
            differences += total - tally.equal[what]
    print(f"\n{differences} differences")
    raise SystemExit(bool(differences))


if __name__ == "__main__":
    main()
