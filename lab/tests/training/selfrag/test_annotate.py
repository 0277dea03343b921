"""Annotation: what is judged and searched for, and how it continues after an interruption."""

from dataclasses import replace

import pytest
from lab.tests.training.selfrag.annotated import ARNO, FIRST, LABELS, PO, ROW, SECOND, SHORT, annotator

from askance.core.errors import InputError, MissingAbility, ModelFailure, RunFolderError
from askance.methods.selfrag.tokens import ALL_TOKENS, GROUPS
from askance.models.scripted import ScriptedModel, ScriptedPairScorer
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.training.selfrag.annotate import annotate_rows, label_counts
from askance_lab.training.selfrag.annotate import annotator as annotator_of
from askance_lab.training.selfrag.annotations import FILE, read_annotations
from tests.contracts.model_contract import run


def test_each_sentence_is_judged_by_the_first_passage_and_searched_for_if_needed():
    made, critic, retriever = annotator()
    annotation = run(made.annotate(ROW))
    assert (annotation.retrieve, annotation.utility) == ("[Retrieval]", "[Utility:4]")
    first, second, last = annotation.sentences
    assert [each.text for each in annotation.sentences] == [FIRST, SECOND, SHORT]
    assert [each.retrieve for each in annotation.sentences] == [
        "[Retrieval]",
        "[Continue to Use Evidence]",
        "",
    ]
    assert (first.is_short, second.is_short, last.is_short) == (False, False, True)
    assert [(each.title, each.relevance, each.support) for each in first.passages] == [
        ("Po", "[Irrelevant]", "[No support / Contradictory]"),
        ("Arno", "[Relevant]", "[Fully supported]"),
    ]
    assert second.passages == ()
    assert retriever.queries == [f"{ROW.instruction} {ROW.output}", f"{ROW.instruction} {FIRST}"]
    assert ("retrieve", "Po", FIRST, SECOND) in critic.asked, "a later sentence, by the first passage"
    assert ("relevance", "Arno", "", "") in critic.asked, "relevance depends on the instruction alone"
    assert ("support", "Arno", "", FIRST) in critic.asked
    assert annotation.evidence.title == "Po"
    assert not any(token in annotation.evidence.text for token in ALL_TOKENS)
    assert annotation.evidence.text.replace("\u200b", "") == PO.text, "tokens inside passages are text"


@pytest.mark.parametrize(
    ("changed", "queries"),
    [
        ({}, [f"{ROW.instruction} {ROW.output}", f"{ROW.instruction} {FIRST}"]),
        # The query of a sentence leaves out what only tells the task.
        (
            {"instruction": "Answer the question.", "input": "Which river?"},
            [f"Answer the question.\n\nWhich river? {ROW.output}", f"Which river? {FIRST}"],
        ),
        (
            {"instruction": "Is it right?## Input:\n\nThe Arno is long."},
            [f"Is it right?## Input:\n\nThe Arno is long. {ROW.output}", f"The Arno is long. {FIRST}"],
        ),
    ],
)
def test_queries(changed, queries):
    made, _, retriever = annotator()
    run(made.annotate(replace(ROW, **changed)))
    assert retriever.queries == queries


@pytest.mark.parametrize(
    ("labels", "retrieve", "missing"),
    [
        ({"retrieve": "[No Retrieval]"}, "[No Retrieval]", ()),
        ({"retrieve": "[Continue to Use Evidence]"}, "", ("retrieve",)),  # there is no evidence yet
        ({"support": "", "utility": ""}, "[Retrieval]", ("support", "utility")),
    ],
)
def test_labels_are_counted_and_so_are_missing_ones(tmp_path, labels, retrieve, missing):
    made, critic, retriever = annotator(LABELS | labels)
    (annotation,) = annotations = run(annotate_rows([ROW], made, tmp_path / "a"))
    assert annotation.retrieve == retrieve
    assert {group for (group, label), number in label_counts(annotations).items() if not label} == {*missing}
    if retrieve == "[No Retrieval]":
        assert (annotation.sentences, annotation.evidence, retriever.queries) == ((), None, [])
        assert [asked[0] for asked in critic.asked] == ["retrieve", "utility"]


def test_an_annotation_that_failed_continues(tmp_path):
    rows = [replace(ROW, id=f"r{number}") for number in range(4)]
    made, critic, _ = annotator()
    good = critic.scorer_of

    def fails(row):
        if row.id == "r2":
            raise ConnectionError("the server has gone")
        return good(row)

    broken, done = replace(made, scorer_of=fails), []
    with pytest.raises(ModelFailure, match=r"row 'r2': ConnectionError: the server has gone\. .*continues"):
        run(annotate_rows(rows, broken, tmp_path / "a", on_row=lambda *numbers: done.append(numbers)))
    assert done[-1] == (2, 4)
    with pytest.raises(InputError, match=r"are not finished \(2 rows so far\)"):
        read_annotations(tmp_path / "a")
    critic.asked.clear()
    whole = run(annotate_rows(rows, made, tmp_path / "a"))
    assert [each.row for each in whole] == rows
    assert len([asked for asked in critic.asked if asked[0] == "utility"]) == 2, "only the others are judged"
    assert read_annotations(tmp_path / "a") == whole
    more = [*rows, replace(ROW, id="r9")]
    done.clear()
    made_of_more = run(annotate_rows(more, made, tmp_path / "a", on_row=lambda *each: done.append(each)))
    assert made_of_more[:4] == whole, "rows can be added"
    assert done == [(4, 5), (5, 5)]
    fewer = run(annotate_rows(rows[:2], made, tmp_path / "a", on_row=lambda *each: done.append(each)))
    assert (fewer, done[-1]) == (whole[:2], (2, 2))
    assert len(read_annotations(tmp_path / "a")) == 5


def test_annotations_of_other_models_or_rows_are_not_mixed_and_a_damaged_line_is_named(tmp_path):
    made, _, _ = annotator(models="one")
    run(annotate_rows([ROW], made, tmp_path / "a"))
    other, _, _ = annotator(models="two")
    with pytest.raises(RunFolderError, match="made with models 'one', now it is 'two': give the same"):
        run(annotate_rows([ROW], other, tmp_path / "a"))
    with pytest.raises(InputError, match="has an annotation of another row with the id 'r1'"):
        run(annotate_rows([replace(ROW, output="No.")], made, tmp_path / "a"))
    with pytest.raises(RunFolderError, match="made with passages 5, now it is 4"):
        run(annotate_rows([ROW], replace(made, passages=4), tmp_path / "a"))
    path = tmp_path / "a" / FILE
    path.write_bytes(path.read_bytes().replace(b"[Fully supported]", b"[Fully supportet]"))
    with pytest.raises(RunFolderError, match="line 2: its checksum does not match"):
        read_annotations(tmp_path / "a")


def test_rows_that_can_not_be_annotated(tmp_path):
    made, _, _ = annotator()
    with pytest.raises(InputError, match="two rows have the id 'r1'"):
        run(annotate_rows([ROW, ROW], made, tmp_path / "a"))
    with pytest.raises(InputError, match="row 'r1' has no \"output\""):
        run(annotate_rows([replace(ROW, output=" ")], made, tmp_path / "a"))
    with pytest.raises(InputError, match="holds no annotations"):
        read_annotations(tmp_path)
    assert list(tmp_path.iterdir()) == []


class TestModels:
    """Annotators whose labels come from models."""

    @pytest.mark.parametrize("name", ["llama", "qwen"])
    def test_tiny_models(self, name, request):
        model = request.getfixturevalue(name)
        annotation = run(annotator_of({"answer": model}, ScriptedRetriever([ARNO, PO]), 2).annotate(ROW))
        assert annotation.retrieve in GROUPS["retrieve"]
        assert annotation.utility in GROUPS["utility"]
        for sentence in annotation.sentences:
            assert {each.support for each in sentence.passages} <= set(GROUPS["support"])

    def test_a_cross_encoder_can_not_give_all_labels(self):
        with pytest.raises(MissingAbility, match="in the role answer only judges pairs of texts"):
            annotator_of({"answer": ScriptedPairScorer()}, ScriptedRetriever([ARNO]))

    def test_a_self_rag_model_judges_by_its_tokens(self):
        probs = {"[Retrieval]": 0.9, "[No Retrieval]": 0.1}
        from tests.methods.reflecting import native, said

        def reply(prompt, key):
            return said("[Retrieval]", probs)

        annotation = run(annotator_of({"answer": native(reply)}, ScriptedRetriever([ARNO])).annotate(ROW))
        assert annotation.retrieve == "[Retrieval]"

    def test_a_cross_encoder_judges_passages(self):
        pairs = ScriptedPairScorer(lambda *pair: 2.3)
        models = {"answer": ScriptedModel(scores=lambda prompt, option: -1.0), "critic": pairs}
        annotation = run(annotator_of(models, ScriptedRetriever([ARNO])).annotate(ROW))
        (judged,) = annotation.sentences[0].passages
        assert (judged.relevance, judged.support) == ("[Relevant]", "[Fully supported]")

    def test_a_prompt_that_is_too_long_gets_no_label(self, llama):
        long = replace(ROW, output="word " * 2000 + ".")
        assert run(annotator_of({"answer": llama}, ScriptedRetriever([ARNO])).annotate(long)).utility == ""
