"""Replay recorded cases of the Self-RAG authors' functions: python -m benchmarks.replay_selfrag FOLDER.

FOLDER has `short_form.jsonl.gz` and `long_form.jsonl.gz`, or one of them.
Generations and passages are played back from the recording. The decisions, scores and texts that
`selfrag_authors` makes from them must equal the recorded ones. The script prints a table with the number of
cases in each class, and the number of cases that differ.
"""

import argparse
import asyncio
import gzip
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from askance.ask import Engine, Result
from askance.core.ports import Run
from askance.core.trace import Expanded, Generated, Trace
from askance.core.types import Hit, Part, Span
from askance.evaluation.metrics.answers import match
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.reproductions.selfrag import BeamNode, expand_node, grow_tree, supported_path
from askance_lab.reproductions.selfrag_outputs import (
    QueryContext,
    distinct_segments,
    parse_segment,
    whole_text,
    without_control_tokens,
    without_leading_sign,
)
from benchmarks.selfrag_recorded import (
    Case,
    RecordedEngine,
    base_prompt,
    method_of,
    passages_of,
    question_of,
    with_numbers,
)
from benchmarks.table import markdown

RELATIVE = 1e-12
"""The tolerance of scores. They differ slightly, because the recording has log-probabilities, whereas askance
uses probabilities."""

FILES = ("short_form", "long_form")


def cases_of(path: Path) -> Iterator[tuple[Mapping[str, int], Case]]:
    """Yield the cases in a file, each together with the ids of the control tokens."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        token_ids = json.loads(next(file))["token_ids"]
        for line in file:
            yield token_ids, json.loads(line)


def differences(case: Case, token_ids: Mapping[str, int]) -> list[str]:
    """Return descriptions of the differences.

    If the authors' code failed in a case, only the results from before the failure are compared.
    """
    if case.get("driver") == "run_step_generation_batch":
        return list(asyncio.run(_of_step(case, token_ids)))
    engine, retriever = RecordedEngine(case, token_ids), ScriptedRetriever(passages_of(case))
    result = asyncio.run(Engine(method_of(case), {"answer": engine}, retriever).answer(question_of(case)))
    found = _of_short_form if case.get("driver") is None else _of_long_form
    return [*_of_prompts(case, engine), *found(case, result), *asyncio.run(_of_tree(case, token_ids))]


def _of_prompts(case: Case, engine: RecordedEngine) -> Iterator[str]:
    """Compare the prompts in order, with their token limits, up to a failure of the authors' code."""
    theirs = [(place, call["max_tokens"]) for call in case["calls"] for place in call["prompts"]]
    ours = engine.calls[: len(theirs)] if "raises" in case["expected"] else engine.calls
    if ours != theirs:
        yield f"prompts: ours {ours}, theirs {theirs}, base {base_prompt(case)!r}"


def _of_short_form(case: Case, result: Result) -> Iterator[str]:
    expected, answer = case["expected"], result.answer
    yield from _of_decision(expected, result)
    tried = [event for event in result.trace.events if isinstance(event, Expanded)]
    written = [event.text for event in result.trace.events if isinstance(event, Generated)]
    for theirs, ours in zip(expected.get("passages", ()), tried, strict=False):
        yield from _of_scores(theirs, ours.numbers, f"passage {theirs['passage']}")
        if ours.passage is None or ours.passage.passage.id != theirs["passage"]:
            yield f"passage {theirs['passage']} has another place"
    if len(expected.get("passages", ())) > len(tried):
        yield f"passages: ours {len(tried)}"
    if "draft_text" in expected and written[0] != expected["draft_text"].removesuffix("</s>"):
        yield f"draft: ours {written[0]!r}"
    if "closed_sums" in expected:
        yield from _of_sums(expected["closed_sums"], result)
    if "best_passage" in expected and [c.passage.id for c in answer.citations] != _cited(expected):
        yield f"best passage: ours {answer.citations}"
    if "returned" in expected:
        # Askance removes control tokens, which the authors' code leaves in open answers.
        text = without_control_tokens(without_leading_sign(expected["returned"]))
        if answer.text != text:
            yield f"answer: ours {answer.text!r}, theirs {text!r}"
    if "metric_result" in expected and case["args"]["metric"] == "match":
        row = case["row"]
        golds = row.get("answers") or row.get("answer") or row["answerKey"]
        verdicts = {"SUPPORTS": "true", "REFUTES": "false"}
        text = next((truth for name, truth in verdicts.items() if name in answer.text), answer.text)
        if match(text, [golds] if isinstance(golds, str) else golds) != expected["metric_result"]:
            yield f"match: ours is not {expected['metric_result']}"


def _cited(expected: Case) -> list[str]:
    text = without_control_tokens(without_leading_sign(expected["returned"]))
    return [expected["best_passage"]] if text else []


def _of_sums(theirs: Sequence[tuple[str, float]], result: Result) -> Iterator[str]:
    ours = next(each.numbers for each in result.trace.decisions if each.name == "choose")
    if ours.keys() != {text for text, _ in theirs}:
        yield f"groups: ours {list(ours)}, theirs {theirs}"
        return
    yield from (f"sum of {text!r}: ours {ours[text]}" for text, sum in theirs if not _close(ours[text], sum))


def _of_decision(expected: Case, result: Result) -> Iterator[str]:
    decision = next(each for each in result.trace.decisions if each.name == "retrieve")
    if "do_retrieve" in expected and (decision.outcome == "search") is not expected["do_retrieve"]:
        yield f"decision: ours {decision.outcome}"
    share = expected.get("decision", {}).get("ratio", expected.get("retrieve_prob"))
    if share is not None and not _close(decision.numbers["share"], share):
        yield f"share: ours {decision.numbers['share']}, theirs {share}"


def _of_long_form(case: Case, result: Result) -> Iterator[str]:
    expected, answer = case["expected"], result.answer
    if expected.get("raises", {}).get("function") != "call_model_beam_batch":
        yield from _of_decision(expected, result)
    tried = {event.node: event for event in result.trace.events if isinstance(event, Expanded)}
    for name, node in _named(expected.get("nodes", ())).items():
        if name == "0":
            continue
        if name not in tried:
            yield f"node {name} is missing"
            continue
        ours = tried[name].numbers
        yield from _of_scores(node["step"], {**ours, "score": ours["step"]}, f"step {name}")
        if not _close(ours["score"], node["score"]):
            yield f"node {name}: ours {ours['score']}"
    if "output" in expected:
        biography = case["task"] == "factscore"
        text = answer.text if biography or not answer.citations else with_numbers(answer)
        if text != expected["output"]:
            yield f"output: ours {text!r}, theirs {expected['output']!r}"


def _named(nodes: Sequence[Case]) -> dict[str, Case]:
    """Return the recorded nodes by the names that askance gives to nodes.

    A name consists of the parent's name and the node's number among the parent's children.
    """
    names, siblings = dict[int, str](), Counter[int]()
    for node in nodes:
        parent = node["parent"]
        if parent is None:
            names[node["node"]] = "0"
            continue
        siblings[parent] += 1
        names[node["node"]] = f"{names[parent]}.{siblings[parent]}"
    return {names[node["node"]]: node for node in nodes}


async def _of_tree(case: Case, token_ids: Mapping[str, int]) -> list[str]:
    """Compare the texts of all nodes, the nodes kept at each level, and the paths through the tree."""
    expected = case["expected"]
    if "paths" not in expected:
        return []
    asked, hits = _asked(case, token_ids), _hits(case)
    levels = await grow_tree(asked, hits)
    named, found = _named(expected["nodes"]), list[str]()
    names = {node["node"]: name for name, node in named.items()}
    kept = [[names[node] for node in level] for level in expected["kept"].values()]
    ours = [[node.name for node in level] for level in levels[1:]]
    if ours != kept:
        return [f"kept: ours {ours}, theirs {kept}"]
    for parent in (node for level in levels for node in level if f"{node.name}.1" in named):
        for node in await expand_node(asked, parent, hits):
            found += _of_node(case, asked, node, named[node.name])
    paths = [supported_path(leaf, rejects=asked.parameters.reject_unsupported) for leaf in levels[-1]]
    whole = [" ".join(["", *(text for text, _ in path)]) for path in paths]
    if whole != [path["final_prediction"] for path in expected["paths"]]:
        found.append(f"paths: ours {whole}")
    if case.get("task") in ("asqa", "eli5") and not whole_text(paths[0]):
        paths[0:1] = paths[1:2]  # The authors' code overwrites the record of the first path.
    for our_path, path in zip(paths, expected["paths"], strict=False):
        texts, ids = [text for text, _ in our_path], [passage.id for _, passage in our_path]
        if ["", *texts] != path["splitted_sentences"] or [None, *ids] != path["passages"]:
            found.append(f"path: ours {our_path}, theirs {path}")
    if "docs" in expected:
        docs = [passage.id for _, _, passage in distinct_segments(paths[0])]
        found += [] if docs == expected["docs"] else [f"docs: ours {docs}, theirs {expected['docs']}"]
    return found


def _of_node(case: Case, asked: QueryContext, node: BeamNode, theirs: Case) -> Iterator[str]:
    script = case["script"][theirs["script"]]
    pred = theirs.get("pred_rewritten", script["text"])
    if node.read.text != theirs.get("processed", pred):
        yield f"text of {node.name}: ours {node.read.text!r}, theirs {theirs.get('processed', pred)!r}"
    if node.read.searches != ("[Retrieval]" in pred):
        yield f"{node.name}: searches {node.read.searches}"
    stored = _text(asked, node.before)
    if stored != theirs["stored_prompt_behind"]:
        yield f"prompt of {node.name}: ours {stored!r}, theirs {theirs['stored_prompt_behind']!r}"


async def _of_step(case: Case, token_ids: Mapping[str, int]) -> list[str]:
    """Compare the expansion of one node, with or without passages."""
    expected, found = case["expected"], list[str]()
    asked = _asked(case, token_ids)
    behind: tuple[Part, ...] = (Span(case["behind"]),)
    hits: Sequence[Hit | None] = _hits(case) if case["row"]["docs"] is not None else [None]
    for at, hit in enumerate(hits):
        key = ("segment", at)
        written = await asked.write(*behind, hit=hit, key=key)
        judged = asked.judgements(written)
        numbers = asked.segment_scores(written, judged)
        if "raises" in expected:
            continue
        found += _of_scores(expected["parts"][at], numbers, f"step {at}")
        if not _close(numbers["score"], expected["scores"][at]):
            found.append(f"score {at}: ours {numbers['score']}")
        pred = expected["preds"][at]
        read = parse_segment(written, asked.shows_end(written), asked.vocabulary, asked.parameters.threshold)
        if read.searches != ("[Retrieval]" in pred) or read.text != pred.split("[Retrieval]")[0]:
            found.append(f"text {at}: ours {read.text!r}, theirs {pred!r}")
    engine = asked.run.model
    assert isinstance(engine, RecordedEngine)
    return [*_of_prompts(case, engine), *found]


def _asked(case: Case, token_ids: Mapping[str, int]) -> QueryContext:
    run = Run({"answer": RecordedEngine(case, token_ids)}, ScriptedRetriever(passages_of(case)), Trace())
    return QueryContext(method_of(case), question_of(case), run)


def _hits(case: Case) -> list[Hit]:
    return [Hit(each, 1 / rank, rank) for rank, each in enumerate(passages_of(case), start=1)]


def _text(asked: QueryContext, parts: Sequence[Part]) -> str:
    return "".join(part.text if isinstance(part, Span) else asked.run.model.decode(part) for part in parts)


def _of_scores(theirs: Case, ours: Mapping[str, float], what: str) -> Iterator[str]:
    """Compare the scores of a candidate. Theirs are 0 for a judgement that is switched off."""
    names = {"relevance_score": "relevance", "ground_score": "support", "utility_score": "utility"}
    for name, own in {**names, "final_score": "score"}.items():
        if theirs[name] and not _close(ours[own], theirs[name]):
            yield f"{what}, {own}: ours {ours[own]}, theirs {theirs[name]}"


def _close(ours: float, theirs: float) -> bool:
    return math.isclose(ours, theirs, rel_tol=RELATIVE, abs_tol=RELATIVE)


def table(folder: Path) -> tuple[str, int]:
    """Return a Markdown table with a row for each class, and the total number of cases that differ."""
    cases, differing, messages = Counter[tuple[str, str]](), Counter[tuple[str, str]](), list[str]()
    for name in FILES:
        path = folder / f"{name}.jsonl.gz"
        for token_ids, case in cases_of(path) if path.exists() else ():
            row, found = (name, case["class"]), differences(case, token_ids)
            cases[row] += 1
            differing[row] += bool(found)
            messages += [f"{case['id']}: {what}" for what in found]
    rows = [(*row, f"{num}", f"{differing[row]}") for row, num in cases.items()]
    rows.append(("all", "compared", f"{cases.total()}", f"{differing.total()}"))
    text = markdown(("file", "class", "cases", "differences"), rows)
    return "\n".join([text, *messages]), differing.total()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    text, num_differing = table(parser.parse_args(arguments).folder)
    print(text)
    raise SystemExit(1 if num_differing else 0)


if __name__ == "__main__":
    main()
