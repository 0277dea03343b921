"""The study of questions of one to four hops: its world, what is taught, its runs and its gate."""

import asyncio
import random
from dataclasses import replace

import pytest
from lab.tests.training.reader.sample_examples import RAW_ONLY
from tests.evaluation.hand_made import record

from askance.configuration.build import load_models, open_retriever
from askance.configuration.evaluation import read_dataset
from askance.core.answers import Usage
from askance.core.errors import InputError
from askance.methods.airrag.prompts import REFUSAL
from askance.methods.airrag.state import DA, QT, RA, SA, SAY
from askance.models.scripted import ScriptedModel
from askance_lab.training.actions.rows import is_well_formed
from studies.depth import runs, teaching, world
from studies.depth.page import write_page
from studies.depth.results import CLAIMS, gate
from studies.depth.runs import PATHS, RM, RM_VOTE, TREE, Made, Runner
from studies.depth.world import HOPS, QUICK
from studies.known_unknown.questions import chain_of
from studies.known_unknown.world import make_world


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    out = tmp_path_factory.mktemp("depth") / "out"
    return out, world.write_world(out, QUICK, 1)


@pytest.fixture(scope="module")
def taught(study):
    out, apart = study
    retriever = open_retriever(out / "teaching" / "index", "bm25", None)
    return asyncio.run(teaching.lessons(apart, QUICK, retriever))


def asked(out, name):
    return read_dataset(f"jsonl:{out / name}.jsonl")


def test_there_are_as_many_questions_of_each_number_of_hops_and_others_for_the_reward_model(study):
    out, _ = study
    for hops in HOPS:
        assert [example.hops for example in asked(out, f"hops-{hops}")] == [hops] * QUICK.questions
    training = asked(out, "training")
    assert [example.hops for example in training] == [hops for hops in HOPS for _ in range(QUICK.training)]
    questions = [each.question.text for name in ("hops-4", "training") for each in asked(out, name)]
    assert len(questions) == len(set(questions))
    before = {path: path.read_bytes() for path in out.glob("*.jsonl")}
    assert world.write_world(out, QUICK, 1) == study[1]
    assert {path: path.read_bytes() for path in out.glob("*.jsonl")} == before
    with pytest.raises(InputError, match=r"1 hops, and 9999 are wanted: make the world larger"):
        world.draw_chains(study[1], 1, 9999, 1)


def test_nothing_that_is_asked_is_taught(study, taught):
    out, apart = study
    made = make_world(1, QUICK.entities)
    assert not made.entities.keys() & apart.entities.keys()
    texts = {lesson.question.text for lesson in taught}
    assert not texts & {each.question.text for hops in HOPS for each in asked(out, f"hops-{hops}")}


def test_every_reply_that_is_taught_is_read_completely_and_all_actions_are_taught(study, taught):
    rows = [row for lesson in taught for row in lesson.rows()]
    assert all(is_well_formed(row.action, row.reply) for row in rows)
    assert {row.action for row in rows} == {SAY, QT, RA, SA, DA}
    assert sum(row.is_none for row in rows if row.action == QT) < sum(row.action == QT for row in rows) / 2
    mix = teaching.data_mix(study[1], QUICK, taught, RAW_ONLY)
    assert {"say", "qt", "ra", "sa", "reading"} <= {example.task for example in mix.training}
    assert not mix.held_out


def test_a_rewriting_fills_in_the_name_that_the_plan_lacks(taught):
    lesson = next(each for each in taught if len(each.steps) == 4)
    rewritings = [row for row in lesson.rows() if row.kind == "rewriting"]
    assert [len(row.history) for row in rewritings] == [1, 2, 3]
    for row in rewritings:
        assert " that " in row.sub_question
        assert row.history[-1].answer in row.reply
    (plan,) = (row.reply for row in lesson.rows() if row.action == SAY)
    assert plan.splitlines() == [step.planned for step in lesson.steps]
    step = replace(lesson.steps[0], subject="an entity that was not found")
    lesson = replace(lesson, rng=random.Random(1))
    assert lesson._answer(step).reply == REFUSAL, "the search found another document"
    assert lesson._answer(replace(step, subject=step.hits[0].passage.title)).reply == step.answer


class Erring:
    """A reader of the made world whose replies are wrong with a probability of 0.3, each by itself."""

    def __init__(self, made, examples):
        self.answers = {fact.question(0): fact.object for facts in made.facts.values() for fact in facts}
        self.plans, self.golds = {}, {}
        for example in examples:
            text = example.question.text
            self.golds[text] = example.golds[0]
            plan = "\n".join(fact.question(0) for fact in chain_of(made, example))
            self.plans[text] = plan if example.hops > 1 else "None"

    def __call__(self, shown, key):
        is_wrong = random.Random(repr(key)).random() < 0.3
        question = shown.rpartition("Question: ")[2].partition("\n")[0].strip()
        if shown.endswith("Queries:"):
            return "None" if "Next query:" in shown else self.plans[question]
        answer = self.golds.get(question) or self.answers.get(question, "")
        answer = "Nowhere" if is_wrong else answer
        return (
            f"So the final answer is: {answer}" if "line by line" in shown else f"So the answer is {answer}."
        )


@pytest.fixture(scope="module")
def made(study):
    """All runs, with the world's reader in place of the taught model."""
    out, _ = study
    examples = [each for hops in HOPS for each in asked(out, f"hops-{hops}")]
    reader = Erring(make_world(1, QUICK.entities), [*examples, *asked(out, "training")])
    model = ScriptedModel(
        reader,
        scores=lambda prompt, option: -1.0,
        context_tokens=100_000,
        capabilities=frozenset({"raw", "continuation", "score"}),
    )
    model.fingerprint = "scripted"

    def load(specs):
        return {
            role: model if role == "answer" else load_models({"answer": spec})["answer"]
            for role, spec in specs.items()
        }

    runner = Runner(out, "hf:absent", load)
    return runner, runner.make_all(), model


def test_the_runs_are_whole_are_made_once_and_the_page_has_every_method_and_condition(made, study):
    runner, results, model = made
    out, _ = study
    assert set(results.records) == {*runs.METHODS, PATHS}
    for by_hops in results.records.values():
        assert [len(by_hops[hops]) for hops in HOPS] == [QUICK.questions] * len(HOPS)
        assert not any(each.is_failure for records in by_hops.values() for each in records)
    for hops in HOPS:
        trees = [[each.usage.generated_tokens for each in results.records[name][hops]] for name in (TREE, RM)]
        assert trees[0] == trees[1], "runs that differ in choosing alone share their tokens"
    before = len(model.prompts)
    assert runner.make_all() == results
    assert len(model.prompts) == before
    rows = gate(results)
    page = write_page(out, QUICK, results, rows)
    text = page.read_text()
    assert all(f"| `{name}` |" in text for name in results.records)
    assert all(f"| {row.condition} | {row.measured} |" in text for row in rows)
    assert (page.parent / "depth.svg").read_text().startswith("<?xml")


def scored(accuracies, tokens):
    """Hand-made records of all methods: eight questions at each number of hops."""
    names = [*runs.METHODS, PATHS]
    records = {
        name: {
            hops: [
                record(
                    number,
                    {"exact_match": float(number <= accuracies.get(name, 4))},
                    usage=Usage(tokens.get(name, 100)),
                )
                for number in range(1, 9)
            ]
            for hops in HOPS
        }
        for name in names
    }
    return Made(records, dict.fromkeys(HOPS, 2.0), None)


def is_met(made, part):
    (row,) = (row for row in gate(made) if part in row.condition)
    return row.is_met


def test_the_gate_wants_differences_beyond_the_interval():
    for better, worse in CLAIMS:
        condition = f"{better} is above {worse}"
        assert is_met(scored({better: 8, worse: 2}, {}), condition)
        assert not is_met(scored({better: 5, worse: 5}, {}), condition)
    assert is_met(scored({}, {}), "rm_vote is not worse")
    assert not is_met(scored({RM_VOTE: 1, TREE: 8}, {}), "rm_vote is not worse")
    assert not is_met(scored({}, {}), "AUC")


@pytest.mark.parametrize(
    ("accuracies", "tokens", "expected"),
    [({}, {}, True), ({TREE: 1, PATHS: 8}, {}, False), ({}, {PATHS: 110}, False), ({}, {PATHS: 104}, True)],
)
def test_the_rule_compares_at_equal_tokens(accuracies, tokens, expected):
    assert is_met(scored(accuracies, tokens), "all of them") is expected
    assert is_met(scored(accuracies, tokens), "4 hops") is expected
