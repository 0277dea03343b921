"""Replay recorded runs of the DRAGIN authors' code: python -m benchmarks.replay_reference PATH [--signals].

PATH is a recording, or a folder with a recording and its models (see `replay_live` for such folders).

Generations, entropies, attentions and passages are played back from the recording. Askance decides and builds
everything else from them, and its results must equal the recorded ones. Values that the recording lacks (the
attention for queries, FLARE's probabilities) are computed by the plain bundled model in float32. With
--signals, that model also computes the recorded numbers again, and the script compares them. The recording
split sentences by spaCy's rules, so the script needs the package (pip install spacy), but no spaCy model.
"""

import argparse
import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from askance.ask import ask
from askance.core.ports import Method, Model, Run
from askance.core.trace import Decided, Generated, Searched, Trace
from askance.core.types import (
    Demo,
    Question,
    Raw,
    Span,
    Want,
)
from askance.methods.common.prompts import PromptTemplate
from askance.methods.common.search import QueryMode
from askance.models.loaders import load_bundled_model
from askance.retrieval.scripted import ScriptedRetriever
from askance.text.linguistics import Linguistics
from askance_lab.reproductions.baselines import (
    ClosedBookAuthors,
    FixedLengthAuthors,
    FixedSentenceAuthors,
    FlareEntity,
    FlareToken,
    SingleAuthors,
)
from askance_lab.reproductions.dragin import (
    DraginAuthors,
    aggregate_over_words,
    find_trigger,
    influence,
    read_words,
    rind_scores,
)
from askance_lab.reproductions.dragin_base import AuthorsState, Trigger
from benchmarks.recorded import (
    Record,
    RecordedAnswers,
    RecordedLanguage,
    RecordedSearches,
    Tally,
    compute_again,
    passage_block,
    split_demo,
)
from benchmarks.replay_live import replay_folder

TOLERANCE = 1e-4


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
                space_marker=_marker(run),
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


def _marker(run: Record) -> str:
    """Return the recorded space marker, or the one that the name of the run implies."""
    marker: str = run["settings"].get("space_marker", "▁" if "as shipped" in run["name"] else "auto")
    return marker


def replay(record: Record, run: Record, inner: Any, language: RecordedLanguage, with_signals: bool) -> Tally:
    """Replay one run, and compare everything that can be compared."""
    tally, linguistics = Tally(), language.linguistics
    demos = tuple(Demo(*split_demo(demo)) for demo in record["demos"])
    asked = {question["qid"]: question["question"] for question in record["questions"]}
    marker = _marker(run).replace("auto", "Ġ")
    for result in run["results"]:
        rounds = result["rounds"]
        prompts = [inner.decode(tuple(e["prompt_ids"])) for e in rounds if e["kind"] == "generate"]
        lines = [parsed[1] for parsed in map(passage_block, prompts) if parsed]
        method = make_method(run, PromptTemplate(demos, "Context:", lines[0] if lines else ""), linguistics)
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
        asyncio.run(compare_counters(trace, result, inner, language, tally))
        if with_signals:
            asyncio.run(compare_signals(rounds, inner, marker, tally))
    return tally


async def replay_rules(
    run: Record,
    question: Question,
    rounds: list[Record],
    inner: Model,
    marker: str,
    linguistics: Linguistics,
    tally: Tally,
) -> None:
    """Compare the results for recorded words: decisions, kept prefixes, hits, and queries of all modes."""
    settings = run["settings"]
    for at, entry in enumerate(rounds):
        if entry["kind"] != "rind_inputs":
            continue
        draft, decided = rounds[at - 1]["text"], rounds[at + 1]
        threshold, sentences = settings["hallucination_threshold"], linguistics.sentences(draft)
        real = linguistics.real_words if settings["check_real_words"] else None
        values_of = partial(rind_scores, entry["attn"], entry["entropy"])
        doubt = find_trigger(sentences, entry["words"], values_of, max, threshold, real)
        words = () if doubt is None else doubt.words
        tally.compare("decisions", doubt is not None, decided["hallucination"])
        tally.compare("kept prefixes", draft if doubt is None else doubt.kept, decided["prev"])
        tally.compare("hits", doubt and [int(word.is_hit) for word in words], decided["hit"])
        tally.compare("sentences", doubt and [word.text for word in words], decided["curr_tokens"])
        if doubt is not None:
            await _replay_queries(question, doubt, decided, settings, marker, linguistics, inner, tally)


async def _replay_queries(
    question: Question,
    doubt: Trigger,
    decided: Record,
    settings: Record,
    marker: str,
    linguistics: Linguistics,
    inner: Any,
    tally: Tally,
) -> None:
    ends = {inner.decode((id,)): id for id in inner._vocabulary.end_ids}
    run = Run({"answer": inner}, ScriptedRetriever([]), Trace())
    so_far = AuthorsState(question, run, PromptTemplate(), text=decided["text_before"], control=ends)
    for mode, query in decided["mode_queries"].items():
        method = DraginAuthors(
            query=cast(QueryMode, mode),
            query_top=settings["retrieve_keep_top_k"],
            space_marker=marker,
            linguistics=linguistics,
        )
        tally.compare("queries of other modes", await method.query_for(doubt, so_far), query)


def compare_decisions(trace: Trace, rounds: list[Record], tally: Tally) -> None:
    """Compare the decisions and queries of the whole method, in order."""
    recorded = [entry for entry in rounds if entry["kind"] == "decision"]
    ours = [decision for decision in trace.decisions if decision.name == "retrieve"]
    if recorded:
        flags = [decision.outcome == "search" for decision in ours]
        tally.compare("rounds", flags, [entry["hallucination"] for entry in recorded])
    queries = [entry["query"] for entry in rounds if entry["kind"] == "qfs"]
    searched = [decision.query for decision in ours if decision.outcome == "search"]
    for our, their in zip(searched, queries, strict=False):
        tally.compare("QFS queries", our, their)


async def compare_counters(
    trace: Trace, result: Record, inner: Model, language: RecordedLanguage, tally: Tally
) -> None:
    """Compare the recorded counters with counts from the trace and from the recorded texts."""
    texts = [entry["text"] for entry in result["rounds"] if entry["kind"] == "generate"]
    generated = [event for event in trace.events if isinstance(event, Generated)]
    doubts = [e for e in trace.events if isinstance(e, Decided) and e.outcome == "search" and e.words]
    ours = {
        "retrieve_count": sum(isinstance(event, Searched) for event in trace.events),
        "generate_count": len(generated),
        "hallucinated_count": len(doubts),
        "token_count": sum([await inner.count(Raw((Span(text),))) for text in texts]),
        "sentence_count": sum(map(language.count_sentences, texts)),
    }
    tally.compare("counters", ours, result["counter"])
    tally.compare("search counts", ours["retrieve_count"], result["retrieve_count"])


async def compare_signals(rounds: list[Record], inner: Any, marker: str, tally: Tally) -> None:
    """Compare the plain bundled model's entropies and attentions with the recorded ones."""
    for at, entry in enumerate(rounds):
        if entry["kind"] != "rind_inputs":
            continue
        recorded = rounds[at - 1]
        tokens = await compute_again(inner, recorded, Want(entropy=True))
        ids = tuple(recorded["new_ids"])
        tally.compare("generated ids (signals)", tuple(token.id for token in tokens), ids)
        pieces = inner.pieces(ids)
        words = read_words(ids, pieces, marker, after_end=True)
        attention = influence((await inner.attend(ids, bos=False)).weights, pieces[0]).tolist()
        weighed = aggregate_over_words(words, attention, [token.entropy or 0.0 for token in tokens])
        theirs = (entry["attn"], entry["entropy"])
        for what, our, their in zip(("attention", "entropy"), weighed, theirs, strict=True):
            most = float(np.abs(np.array(our) - np.array(their)).max())
            tally.total[f"{what} within {TOLERANCE:g}"] += 1
            tally.equal[f"{what} within {TOLERANCE:g}"] += most <= TOLERANCE
            tally.worst[what] = max(most, tally.worst[what])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--signals", action="store_true")
    parser.add_argument("--show", type=int, default=3, help="most differences to print, of a folder (3)")
    options = parser.parse_args()
    if options.path.is_dir():
        linguistics = RecordedLanguage().linguistics
        raise SystemExit(bool(replay_folder(options.path, linguistics, make_method, options.show)))
    record = json.loads(options.path.read_text(encoding="utf-8"))
    inner = load_bundled_model("base", device="cpu", dtype="float32")
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
