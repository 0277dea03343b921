r"""Does another model's attention lead DRAGIN to the same searches as the answering model's own?

    python -m runs.proxy_agreement --dataset hotpotqa:FILE --index DIR --limit 20 --out FOLDER \
        --threshold 0.6 --proxy bundled 'bundled?dtype=bfloat16'

The answering model writes by its own attention (dragin, profile default). Each sentence it writes is judged
twice, by its own attention and by that of a proxy that reads question and answer, but neither examples nor
passages; the doubts (entropies) are the same. The answering model itself as proxy shows what the missing
context changes. Proxies are held against the same threshold, and against the one at which they are in doubt
about as many of these sentences, so that the scale of their attention does not count.

FOLDER/questions.jsonl keeps, per sentence, the score of each word with content and the query it would give;
the tables are in FOLDER/results.json, too. Started again, it goes on where it was stopped.
"""

import argparse
import asyncio
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from askance.cli import exit_codes
from askance.core.ports import Model
from askance.core.trace import Trace
from askance.core.types import Generation, Key
from askance.eval.datasets import Example
from askance.methods.dragin import Dragin
from askance.methods.dragin_default import attended_query
from askance.methods.looking import Look, own_look, proxy_look
from askance.methods.rind_sentence import judge
from askance.text.words import words
from askance.wire import Engine, load_model
from runs.recorded_runs import (
    Cell,
    Questions,
    Recording,
    Row,
    Setting,
    common_options,
    load_setting,
    read_questions,
    settings_of,
)
from runs.summaries import markdown, write_results

OWN = "own"
CELL = "dragin"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a proxy agrees with the model's own attention, over the same sentences.

    Attributes:
        kappa: Cohen's, of the verdicts; 0 is chance, None where it is not defined.
        same_word: share with the same doubtful word, of the sentences that both search for.
        query_overlap: mean Jaccard index of the queries' words, over the same.
        rank_correlation: Spearman's, of the scores of all words of all sentences; no threshold is in it.
    """

    proxy: str
    own_threshold: float
    proxy_threshold: float
    num_sentences: int
    own_searches: int
    proxy_searches: int
    both_search: int
    same_verdict: float
    kappa: float | None
    same_word: float | None
    query_overlap: float | None
    rank_correlation: float | None


class Listening:
    """The answering model, whose sentences are kept with the answer before each."""

    def __init__(self, model: Model, trace: Trace) -> None:
        self._model, self._trace = model, trace
        self.sentences: list[tuple[Generation, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def generate(self, *given: Any, key: Key, **settings: Any) -> tuple[Generation, ...]:
        so_far = self._trace.committed
        written = await self._model.generate(*given, key=key, **settings)
        if "sentence" in key and written[0].tokens:
            self.sentences.append((written[0], so_far))
        return written


def main(arguments: list[str] | None = None) -> None:
    parser = common_options(__doc__ or "")
    parser.add_argument("--dataset", required=True, metavar="NAME:FILE")
    parser.add_argument("--threshold", type=float, help="of dragin; its own default if not given")
    parser.add_argument("--proxy", nargs="+", default=["bundled", "bundled?dtype=bfloat16"])
    with exit_codes():
        _compare(parser.parse_args(arguments))


def _compare(options: argparse.Namespace) -> None:
    questions = read_questions(options.dataset, options.limit, options.prompts)
    settings = {**settings_of(options, [options.dataset]), "proxies": options.proxy}
    setting = load_setting(options)
    knobs = {} if options.threshold is None else {"threshold": options.threshold}
    engine = setting.engine(Cell(CELL, CELL, {"profile": "default", **knobs}), questions.prompts)
    proxies = {
        spec: setting.model if spec == setting.model_spec else load_model(spec) for spec in options.proxy
    }
    rows = _judge_all(engine, questions, proxies, Recording(options.out, settings))
    _show(cast(Dragin, engine.method).threshold, questions, setting, rows, options, settings)


def _judge_all(
    engine: Engine, questions: Questions, proxies: Mapping[str, Model], recording: Recording
) -> list[Row]:
    rows = []
    for number, example in enumerate(questions.examples, start=1):
        found = recording.find(questions.name, CELL, example.question.id, repr(engine.method))
        if found is None:
            found = {
                "dataset": questions.name,
                "cell": CELL,
                **asyncio.run(judge_one(engine, example, proxies)),
            }
            recording.add(found)
            told = found["error"] or f"{len(found['sentences'])} sentences"
            print(f"{number}/{len(questions.examples)}: {told}", file=sys.stderr, flush=True)
        rows.append(found)
    return rows


async def judge_one(engine: Engine, example: Example, proxies: Mapping[str, Model]) -> Row:
    """One question: each sentence by every source. What breaks is recorded; its sentences are left out."""
    dragin, model, trace = cast(Dragin, engine.method), engine.models["answer"], Trace()
    listening = Listening(model, trace)
    asked = example.question
    judged, error = [], ""
    try:
        heard = Engine(dragin, {"answer": cast(Model, listening)}, engine.retriever)
        await heard.answer_into(trace, asked)
        for written, so_far in listening.sentences:
            looks = {OWN: own_look(written, asked.text, so_far, model)}
            for name, proxy in proxies.items():
                looks[name] = await proxy_look(written, asked.text, so_far, proxy, dragin.heads)
            before = f"{asked.text} {so_far}"
            judged.append({name: _read(dragin, written, look, before) for name, look in looks.items()})
    except Exception as problem:
        judged, error = [], f"{type(problem).__name__}: {problem}"
    return {"id": asked.id, "method": repr(dragin), "sentences": judged, "error": error}


def _read(dragin: Dragin, written: Generation, look: Look, before: str) -> Row:
    """Of each word with content: its text, its score, and the query if it were the doubtful one."""
    judged = judge(dragin, written, look, is_over=False)
    real = dragin.linguistics.real_words(written.text)
    pairs = zip(judged.words, judged.values, strict=True)
    read = [(word, score) for word, score in pairs if real.intersection(words(word.text))]
    doubts = [replace(judged, at=word.start) for word, _ in read]
    return {
        "words": [word.text for word, _ in read],
        "scores": [score for _, score in read],
        "queries": [attended_query(dragin, before, doubt, look) for doubt in doubts],
    }


def _show(
    threshold: float,
    questions: Questions,
    setting: Setting,
    rows: Sequence[Row],
    options: argparse.Namespace,
    settings: Row,
) -> None:
    sentences = [sentence for row in rows for sentence in row["sentences"]]
    failures = sum(bool(row["error"]) for row in rows)
    found = []
    for proxy in options.proxy:
        equally_often = matched_threshold(sentences, threshold, proxy)
        found += [agreement(sentences, proxy, threshold, other) for other in (threshold, equally_often)]
    results = [asdict(each) for each in found]
    write_results(options.out, {**settings, "failures": failures, "results": results})
    print(f"## {questions.name}: {setting.title(questions)}, {failures} failures\n")
    titles = [name.replace("_", " ") for name in results[0]]
    print(markdown(titles, [[_number(value) for value in each.values()] for each in results]))


def _number(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def matched_threshold(sentences: Sequence[Row], threshold: float, proxy: str) -> float:
    """At which `proxy` is in doubt about as many sentences as the own attention is at `threshold`.

    Of all such thresholds, the one nearest to `threshold`.
    """
    wanted = sum(doubtful(sentence[OWN], threshold) is not None for sentence in sentences)
    greatest = sorted((max(sentence[proxy]["scores"], default=0.0) for sentence in sentences), reverse=True)
    low = greatest[wanted] if wanted < len(greatest) else 0.0
    high = math.nextafter(greatest[wanted - 1], 0.0) if wanted else math.inf
    return max(low, min(threshold, high))


def doubtful(read: Row, threshold: float) -> int | None:
    """Which word is the first above the threshold."""
    return next((at for at, score in enumerate(read["scores"]) if score > threshold), None)


def agreement(
    sentences: Sequence[Row], proxy: str, own_threshold: float, proxy_threshold: float
) -> Agreement:
    """Of the verdicts at two thresholds, and of the scores."""
    pairs = [
        (doubtful(sentence[OWN], own_threshold), doubtful(sentence[proxy], proxy_threshold))
        for sentence in sentences
    ]
    own, others = ([pair[side] is not None for pair in pairs] for side in (0, 1))
    both = [
        (own_at, proxy_at, sentence)
        for (own_at, proxy_at), sentence in zip(pairs, sentences, strict=True)
        if own_at is not None and proxy_at is not None
    ]
    overlaps = [
        jaccard(sentence[OWN]["queries"][own_at], sentence[proxy]["queries"][proxy_at])
        for own_at, proxy_at, sentence in both
    ]
    scores = [
        [score for sentence in sentences for score in sentence[name]["scores"]] for name in (OWN, proxy)
    ]
    return Agreement(
        proxy,
        own_threshold,
        proxy_threshold,
        num_sentences=len(sentences),
        own_searches=sum(own),
        proxy_searches=sum(others),
        both_search=len(both),
        same_verdict=share([a == b for a, b in zip(own, others, strict=True)]) or 0.0,
        kappa=kappa(own, others),
        same_word=share([own_at == proxy_at for own_at, proxy_at, _ in both]),
        query_overlap=share(overlaps),
        rank_correlation=spearman(*scores),
    )


def share(values: Sequence[float]) -> float | None:
    """The mean, if there is one."""
    return statistics.fmean(values) if values else None


def jaccard(first: str, second: str) -> float:
    """Words that two queries share, of all their words, whatever the letter case; 1 for two empty ones."""
    words, others = set(first.lower().split()), set(second.lower().split())
    return len(words & others) / len(words | others) if words | others else 1.0


def kappa(first: Sequence[bool], second: Sequence[bool]) -> float | None:
    """Cohen 1960: agreement beyond what the two frequencies alone would give, of what is possible."""
    a, b, same = share(first), share(second), share([x == y for x, y in zip(first, second, strict=True)])
    if a is None or b is None or same is None:
        return None
    by_chance = a * b + (1 - a) * (1 - b)
    return (same - by_chance) / (1 - by_chance) if by_chance < 1 else None


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The correlation of the ranks; equal values share the mean of theirs."""
    ranks = _ranks(first), _ranks(second)
    if not len(ranks[0]) or not all(np.ptp(each) for each in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    _, group, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: NDArray[np.float64] = (last - (counts - 1) / 2)[group]
    return means


if __name__ == "__main__":
    main()
