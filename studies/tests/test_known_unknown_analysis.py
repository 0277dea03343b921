"""From runs to results: decision numbers, areas under curves, what searches are worth, the gate, the page."""

import random
from dataclasses import replace

import pytest
from tests.evaluation.hand_made import record, written
from tests.tolerances import near

from askance.ask import Engine
from askance.core.answers import Usage
from askance.core.ports import WrappedModel
from askance.core.trace import Generated, Searched, Trace, TracedToken, WordSignal
from askance.core.types import Hit, Passage
from askance.models.scripted import ScriptedModel
from studies.known_unknown import study
from studies.known_unknown.agreement import Agreement
from studies.known_unknown.analysis import auc, auc_by_exposures, curve, order_of
from studies.known_unknown.decision_numbers import NUMBERS, decision_numbers
from studies.known_unknown.page import write_page
from studies.known_unknown.questions import Counts, needs_search, questions
from studies.known_unknown.results import QFS, gate, results_of
from studies.known_unknown.runs import documents_of, tables
from studies.known_unknown.world import make_world

COUNTS = Counts(4, 16, 4, 2)


@pytest.fixture(scope="module")
def world():
    return make_world(1, study.POCKET.entities)


@pytest.fixture(scope="module")
def asked(world):
    return questions(world, COUNTS, 1)


def exposures(example):
    return int(example.kind.split(" ")[0])


def recorded(folder, examples, score, searches=lambda example: 0, trace=lambda example: Trace()):
    """A run whose scores, searches and traces are functions of the question."""
    records = [
        record(
            number,
            {"exact_match": float(score(example))},
            id=example.question.id,
            question=example.question.text,
            kind=example.kind,
            hops=example.hops,
            golds=example.golds,
            supporting_titles=example.supporting_titles,
            usage=Usage(searches=searches(example)),
        )
        for number, example in enumerate(examples, start=1)
    ]
    return written(folder, records, [trace(example) for example in examples])


class Sampling(WrappedModel):
    """A model whose samples give the answer Kiel so many times, and then different ones."""

    def __init__(self, num_same):
        super().__init__(ScriptedModel([" So the answer is Bonn."] * 2, context_tokens=100_000))
        self.num_same = num_same

    async def generate(self, request):
        made = await super().generate(request)
        if len(made) == 1:
            return made
        names = ["Kiel"] * self.num_same + [f"town {number}" for number in range(len(made))]
        return tuple(
            replace(one, text=f" So the answer is {name}.") for one, name in zip(made, names, strict=False)
        )


@pytest.mark.parametrize(("num_same", "share"), [(8, 1.0), (5, 0.625)])
def test_the_share_of_sampled_answers_that_agree(num_same, share):
    result = Engine(Agreement(), {"answer": Sampling(num_same)}).ask("Where is it?")
    (decision,) = result.trace.decisions
    assert result.answer.short == "Bonn"
    assert decision.numbers == {"agreement": share}
    assert result.usage.searches == 0


def draft(example, doubt):
    """The trace of a draft with two decisions, of which the second is the more doubtful one."""
    trace = Trace()
    for value in (doubt / 2, doubt):
        numbers = {"least probability": 1 - value, "share": value, "agreement": 1 - value}
        words = (WordSignal("so", 0.0, is_hit=False), WordSignal("Bonn", value, is_hit=False))
        trace.decide("retrieve", "keep", "no word is above", words=words, numbers=numbers)
    tokens = (TracedToken(" so", -0.1, 0.0), TracedToken(" Bonn", -0.2, doubt))
    trace.add(
        Generated,
        role="answer",
        key=("sentence", 0),
        prompt="",
        text=" so Bonn",
        finish="stop",
        tokens=tokens,
        prompt_tokens=1,
        generated_tokens=2,
        reused_tokens=0,
    )
    return trace


def test_a_questions_number_is_its_most_doubtful_one(tmp_path, asked):
    few = asked[:3]
    doubts = {example.question.id: 0.1 * number for number, example in enumerate(few, start=1)}
    drafts = {
        name: recorded(
            tmp_path / name,
            few,
            lambda example: 1,
            trace=lambda example: draft(example, doubts[example.question.id]),
        )
        for name in tables()["drafts"]
    }
    found = decision_numbers(drafts)
    assert found.keys() == NUMBERS.keys()
    assert found.pop("mean entropy") == near({id: doubt / 2 for id, doubt in doubts.items()})
    for numbers in found.values():
        assert numbers == near(doubts)


def test_areas_of_perfect_wrong_and_no_numbers(asked):
    perfect = {example.question.id: float(needs_search(example)) for example in asked}
    wrong, constant = {id: -value for id, value in perfect.items()}, dict.fromkeys(perfect, 1.0)
    assert auc(perfect, asked).area == 1
    assert (auc(perfect, asked).low, auc(perfect, asked).high) == (1, 1)
    assert auc(wrong, asked).area == 0
    assert auc(constant, asked).area == 0.5
    chance = {id: random.Random(id).random() for id in perfect}
    found = auc(chance, asked)
    assert found.low < 0.5 < found.high
    assert found.low < found.area < found.high


def test_areas_by_exposures_set_known_facts_beside_unknown_ones(asked):
    numbers = {
        example.question.id: 1.0 if needs_search(example) or exposures(example) < 4 else 0.0
        for example in asked
    }
    found = {number: area.area for number, area in auc_by_exposures(numbers, asked).items()}
    assert found == {1: 0.5, 2: 0.5, 4: 1.0, 8: 1.0, 16: 1.0, 32: 1.0}


def test_the_curve_goes_from_memory_to_one_search_for_each(tmp_path, asked):
    closed_book = recorded(tmp_path / "memory", asked, lambda example: not needs_search(example))
    single = recorded(tmp_path / "single", asked, needs_search, lambda example: 1)
    share = sum(map(needs_search, asked)) / len(asked)
    perfect = {example.question.id: float(needs_search(example)) for example in asked}
    points = curve(perfect, closed_book, single, num_points=len(asked) + 1)
    assert points[0].accuracy == near(1 - share)
    assert points[-1].accuracy == near(share)
    best = max(points, key=lambda point: point.accuracy)
    assert [best.share, best.accuracy] == near([share, 1.0])
    flat = curve(dict.fromkeys(perfect, 0.0), closed_book, single)
    middle = flat[len(flat) // 2]
    assert middle.accuracy == near(0.5), "equal numbers count in proportion"


@pytest.fixture(scope="module")
def made_runs(tmp_path_factory, asked):
    """Runs in which every number is perfect, and deciding by it pays."""
    folder = tmp_path_factory.mktemp("runs")
    runs = {}
    for documents in study.DOCUMENTS:
        for name in {**tables()["methods"], **tables()["calibrated"]}:
            if documents not in documents_of(name):
                continue
            is_adaptive = name in tables()["calibrated"]

            def score(example, name=name, documents=documents, is_adaptive=is_adaptive):
                if name == "closed_book":
                    return not needs_search(example)
                return is_adaptive or documents == "fresh" or " stale" not in example.kind

            def searches(example, name=name, is_adaptive=is_adaptive):
                return 0 if name == "closed_book" or (is_adaptive and not needs_search(example)) else 1

            runs[f"{documents}/{name}"] = recorded(folder / documents / name, asked, score, searches)
    for name in tables()["drafts"]:
        runs[f"stale/{name}"] = recorded(
            folder / "drafts" / name,
            asked,
            lambda example: not needs_search(example),
            trace=lambda example: draft(
                example, 0.9 if needs_search(example) else 0.5 / (1 + exposures(example))
            ),
        )
    double = [example for example in asked if order_of(example) == "known > unknown"]

    def found(example, is_found):
        trace = Trace()
        title = example.supporting_titles[1 if is_found else 0]
        trace.add(Searched, query="?", k=1, hits=(Hit(Passage("1", title, "text"), 1.0, 1),))
        return trace

    queries = {
        mode: recorded(
            folder / "queries" / mode,
            double,
            lambda example: 1,
            trace=lambda example, mode=mode: found(example, mode == QFS),
        )
        for mode in tables()["queries"]["modes"]
    }
    return runs, queries


def test_the_gate_is_met_where_deciding_pays_and_missed_where_it_does_not(made_runs, asked):
    runs, queries = made_runs
    results = results_of(runs, queries, asked)
    rows = gate(results)
    missed = {row.condition for row in rows if not row.is_met}
    # All areas are 1, so they can't rise, and DRAGIN's searches are as many as the questions that need one.
    assert {condition.partition(": ")[2] for condition in missed} == {"rising with the exposures"}
    assert results.num_questions == len(asked)
    assert results.rows["stale"]["single"].difference.mean == 0
    same = {
        place: runs["stale/single"] if "/dragin" in place or "/flare" in place else run
        for place, run in runs.items()
    }
    same |= {f"stale/{name}": runs[f"stale/{name}"] for name in tables()["drafts"]}
    same["stale/selfrag"] = runs["stale/single"]
    missed = [row for row in gate(results_of(same, queries, asked)) if not row.is_met]
    assert any("gains at least 8 points" in row.condition for row in missed)
    assert any("of the searches of single" in row.condition for row in missed)


def test_the_page_has_every_table_and_plot(made_runs, asked, world, tmp_path):
    runs, queries = made_runs
    page = write_page(tmp_path, world, results_of(runs, queries, asked), runs)
    text = page.read_text()
    for name in ("auc", "stale", "fresh"):
        plot = page.with_name(f"known-and-unknown-{name}.svg")
        assert plot.read_text().lstrip().startswith("<?xml")
        assert f"({plot.name})" in text
    for method in {**tables()["methods"], **tables()["calibrated"]}:
        assert f"| `{method}` |" in text
    for number in NUMBERS:
        assert f"| {number} |" in text
    assert "| known > unknown > known |" in text
    assert "This is a made world" in text
    widths = [line.count("|") for line in text.splitlines() if line.startswith("| known")]
    assert len(set(widths)) == 1
    assert write_page(tmp_path, world, results_of(runs, queries, asked), runs).read_text() == text
