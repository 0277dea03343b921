"""A critic: what it learns from rows and annotations, and how it is trained and measured."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from lab.tests.training.selfrag.annotated import FIRST, ROW, SECOND, SHORT, annotator

from askance.configuration.build import load_model
from askance.core.errors import InputError
from askance.core.types import Passage
from askance.methods.selfrag.scoring import prompted_scorer
from askance.models.scripted import ScriptedModel
from askance_lab.training.reader.train_reader import load_base
from askance_lab.training.selfrag.annotations import question_of
from askance_lab.training.selfrag.critic import CriticSettings, train_critic
from askance_lab.training.selfrag.group_results import bm25_scores, critic_results
from askance_lab.training.selfrag.judgements import (
    LabelledJudgement,
    judgements_of_annotation,
    judgements_of_row,
)
from askance_lab.training.selfrag.rows import SelfRagRow
from tests.contracts.model_contract import run

OUTPUT = (
    "[Retrieval]<paragraph>Ulm\nIt is in Ulm.</paragraph>[Relevant]In Ulm.[Fully supported]"
    "[Continue to Use Evidence]It is.[Utility:5]"
)
BONN = "[Retrieval]<paragraph>Bonn\nNo.</paragraph>"
UNSUPPORTED = f"{BONN}[Relevant]In Ulm.[No support / Contradictory][Utility:1]"
IRRELEVANT = f"{BONN}[Irrelevant]In Ulm.[Utility:1]"
ROWS = [
    SelfRagRow(f"{number}", "made", f"Where is it {number}?", "", output, topic=f"t{number % 8}")
    for number, output in enumerate([IRRELEVANT, OUTPUT, UNSUPPORTED, OUTPUT] * 10)
]
JUDGEMENTS = [each for row in ROWS for each in judgements_of_row(row)]


def settings(**changed):
    given = {"rank": 4, "max_tokens": 512, "rows_per_step": 2, "held_out": 0.3, "learning_rate": 0.02}
    return CriticSettings(**(given | {"precision": "float32"} | changed))


def test_the_judgements_of_a_row():
    found = [
        (each.group, each.label, each.passage and each.passage.title, each.so_far, each.text)
        for each in judgements_of_row(SelfRagRow("1", "", "Where?", "", OUTPUT))
    ]
    assert found == [
        ("retrieve", "[Retrieval]", None, "", ""),
        ("relevance", "[Relevant]", "Ulm", "", ""),
        ("support", "[Fully supported]", "Ulm", "", "In Ulm."),
        ("retrieve", "[Continue to Use Evidence]", "Ulm", "In Ulm.", ""),
        ("retrieve", "[Continue to Use Evidence]", "Ulm", "In Ulm.", "It is."),
        ("utility", "[Utility:5]", None, "", "In Ulm. It is."),
    ]
    assert list(judgements_of_row(SelfRagRow("1", "", "Where?", "", "[Retrieval]<paragraph>no end"))) == []


def test_the_judgements_of_an_annotation_keep_every_passage():
    made, _, _ = annotator()
    found = list(judgements_of_annotation(run(made.annotate(ROW))))
    by_group = Counter(each.group for each in found)
    assert by_group == {"retrieve": 3, "relevance": 2, "support": 2, "utility": 1}
    later = [each for each in found if each.so_far == FIRST]
    assert [each.text for each in later] == ["", SECOND], "before the sentence is known, and with it"
    assert not any(each.text == SHORT for each in found)
    unlabelled, _, _ = annotator({})
    assert list(judgements_of_annotation(run(unlabelled.annotate(ROW)))) == []


@pytest.mark.parametrize("name", ["llama_folder", "qwen_folder"])
def test_a_critic_learns_its_labels_and_is_measured(name, request, tmp_path):
    folder, results, labels = request.getfixturevalue(name), {}, Counter()
    report = train_critic(
        {"rows.jsonl": JUDGEMENTS},
        load_base(f"hf:{folder}", device="cpu"),
        settings(epochs=3),
        tmp_path / "critic",
        on_start=lambda report, found: labels.update(found),
        on_end=results.update,
    )
    assert report.curve[-1].loss < report.curve[0].loss
    assert set(results) == {"retrieve", "relevance", "support", "utility"}
    assert all(0 <= each.accuracy <= 1 and 0 <= each.constant <= 1 for each in results.values())
    assert results["relevance"].by_bm25 is not None
    assert results["support"].by_bm25 is None
    card = (tmp_path / "critic" / "README.md").read_text()
    assert "of rows.jsonl: 30% of the label [Relevant]" in card
    assert f"| `[Fully supported]` | {labels['[Fully supported]']} |" in card
    assert f"| utility | {results['utility'].num_cases} | {results['utility'].accuracy:.3f} |" in card
    model = load_model(f"hf:{tmp_path / 'critic'}")
    judged = next(each for each in JUDGEMENTS if each.group == "utility")
    scorer = prompted_scorer(model, question_of(judged.row), None)
    probs = run(scorer("utility", None, "", judged.text, key=("t",)))
    assert set(probs) > {"[Utility:1]", "[Utility:5]"}


def mix_of(judgements, folder, tmp_path, **changed):
    """Return the data mix and the counts of labels of a training that is not run."""
    reports = []
    train_critic(
        judgements,
        load_base(f"hf:{folder}", device="cpu"),
        settings(**({"relevant_dropped": 0.0} | changed)),
        tmp_path / "critic",
        on_start=lambda report, labels: reports.append((report.data_mix, labels)),
        is_dry_run=True,
    )
    assert list(tmp_path.iterdir()) == []
    return reports[0]


def test_what_is_held_out_is_taught_by_no_other_judgement(tmp_path, llama_folder):
    again = [replace(each, row=replace(each.row, id="x", topic="another")) for each in JUDGEMENTS]
    mix, _ = mix_of({"a": JUDGEMENTS, "b": again}, llama_folder, tmp_path)
    topics = [
        {ROWS[int(each.id.partition("/")[2])].topic for each in some} for some in (mix.training, mix.held_out)
    ]
    assert all(topics)
    assert not topics[0] & topics[1]


def test_equal_judgements_are_taken_once_and_relevant_ones_are_thinned(tmp_path, llama_folder):
    twice = [*JUDGEMENTS, *(replace(each, row=replace(each.row, id="x")) for each in JUDGEMENTS)]
    _, labels = mix_of({"a": JUDGEMENTS}, llama_folder, tmp_path, held_out=0.0)
    assert mix_of({"a": twice}, llama_folder, tmp_path, held_out=0.0)[1] == labels
    assert labels["[Relevant]"] == 30
    thinned = mix_of({"a": JUDGEMENTS}, llama_folder, tmp_path, held_out=0.0, relevant_dropped=0.3)[1]
    assert thinned["[Relevant]"] < 30


def test_a_group_with_one_label_is_left_out_and_one_kind_teaches_nothing(tmp_path, llama_folder):
    only = [each for each in JUDGEMENTS if each.label != "[Irrelevant]"]
    mix, labels = mix_of({"a": only}, llama_folder, tmp_path)
    assert "relevance" not in {each.task for each in (*mix.training, *mix.held_out)}
    assert "[Relevant]" not in labels
    assert mix.left_out["a", "relevance has the label [Relevant] alone"] > 0
    only = [each for each in JUDGEMENTS if each.label == "[Relevant]"]
    with pytest.raises(InputError, match="no group of labels has two of them to learn from"):
        mix_of({"a": only}, llama_folder, tmp_path)
    with pytest.raises(InputError, match=r"\(there are no judgements\)"):
        mix_of({"a": []}, llama_folder, tmp_path)


def test_results_count_right_labels_and_separate_cases():
    row = SelfRagRow("1", "", "Is it in Ulm?", "", "")
    cases = [
        LabelledJudgement(row, "relevance", label, Passage("", "", text))
        for label, text in (
            ("[Relevant]", "It is in Ulm."),
            ("[Irrelevant]", "The weather was fine."),
            ("[Irrelevant]", "All roads led to Bonn."),
        )
    ]
    model = ScriptedModel(
        scores=lambda prompt, option: -1.0 if ("Ulm." in prompt) == ("ir" not in option) else -3.0
    )
    labels = Counter({"[Irrelevant]": 2, "[Relevant]": 1})
    result = asyncio.run(critic_results(model, cases, labels))["relevance"]
    assert (result.num_cases, result.accuracy, result.area.area) == (3, 1.0, 1.0)
    assert result.constant == 2 / 3
    scores = bm25_scores(cases)
    assert scores[0] > scores[1] == scores[2] == 0.0
    assert result.by_bm25.area == 1.0
