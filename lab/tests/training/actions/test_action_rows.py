"""Rows of AirRAG's actions: sub-questions of a decomposition, rows that are made of it, and files of rows."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from lab.tests.training.actions.chains import CHAINS, COMPARISONS, chain, comparison
from lab.tests.training.reader.sample_examples import FILM, PISA, RAW_ONLY, TOWER, text_of

from askance.core.errors import InputError
from askance.core.types import Demo, Raw
from askance.evaluation.datasets.example import ReasoningStep, SupportingFacts
from askance.methods.airrag.prompts import READER, REFUSAL, PromptBuilder, parse_queries
from askance_lab.training.actions.decomposition import BadReference, from_steps, sub_questions
from askance_lab.training.actions.gold_rows import LeftOut, gold_rows
from askance_lab.training.actions.noun_phrases import reference
from askance_lab.training.actions.rows import is_well_formed, read_rows
from askance_lab.training.actions.settings import ActionSettings
from askance_lab.training.reader.passages import as_hits


def test_facts_become_questions_that_describe_or_name_the_earlier_answer():
    first, second = sub_questions(FILM)
    assert (first.planned, first.resolved, first.answer) == (
        "Who directed Heidi?", "Who directed Heidi?", "Allan Dwan",
    )  # fmt: skip
    assert (second.planned, second.resolved, second.topic) == (
        "When was the director of Heidi born?", "When was Allan Dwan born?", "Allan Dwan",
    )  # fmt: skip


def test_references_and_relations_become_natural_questions():
    steps = sub_questions(chain(1))
    assert [step.planned for step in steps] == [
        "Who performed Song 1?",
        "What city was the performer of Song 1 formed in?",
        "Which river flows through that city?",
    ]
    assert [step.resolved for step in steps] == [
        "Who performed Song 1?",
        "What city was Band 1 formed in?",
        "Which river flows through Town 1?",
    ]
    assert [step.topic for step in steps] == ["Song 1", "", ""]


def test_steps_that_need_unknown_answers_are_left_to_the_summary():
    assert [step.planned for step in sub_questions(comparison(1))] == [
        "How old is cat 1?", "How old is dog 1?",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "filled"),
    [
        ("who did the #1 play ?", "Who did the Astros play?"),
        ("what was #1 's anthem", "What was the Astros's anthem?"),
        ("#1 >> sport", "Which sport did the Astros play?"),
        ("#1 >> some odd relation", "What is the some odd relation of the Astros?"),
        ("Midway (near #1) >> country", "In which country is Midway?"),
    ],
)
def test_an_answer_is_filled_in_without_breaking_the_sentence(step, filled):
    assert from_steps((ReasoningStep("A?", "the Astros"), ReasoningStep(step, "x")))[1].resolved == filled


@pytest.mark.parametrize(
    ("question", "phrase"),
    [
        ("What city did Snow live in?", "that city"),
        ("In which county was he born?", "that county"),
        ("Who sang it?", "that person"),
        ("Where is it?", "that place"),
        ("When did it end?", "that time"),
        ("How many are there?", "that number"),
        ("What did he do?", "that thing"),
    ],
)
def test_a_reference_names_the_kind_of_the_answer(question, phrase):
    assert reference(question) == phrase


@pytest.mark.parametrize(
    "questions",
    [("Where is #3?", "Who is #1?", "A?"), ("Where is #1?",), ("A?", "Who is #0?"), ("A?", "#9?")],
)
def test_cycles_and_unknown_references_are_refused(questions):
    with pytest.raises(BadReference, match="which is no earlier step"):
        from_steps(tuple(ReasoningStep(each, "x") for each in questions))


NOTHING = ActionSettings(say=0, qt=0, ra=0, sa=0, da=0)


def rows(examples, **changed):
    left_out = LeftOut()
    return list(gold_rows("own", examples, replace(NOTHING, **changed), left_out)), left_out


def test_sub_questions_need_no_plan():
    made, _ = rows([FILM], say=40.0, none_share=0.5)
    asked = {row.question.text: row.reply for row in made if row.is_none}
    assert asked == {"Who directed Heidi?": "None", "When was Allan Dwan born?": "None"}
    assert {row.reply for row in rows([TOWER], say=3.0)[0]} == {"None"}


def test_the_transformations_of_the_paper():
    made, _ = rows([FILM], qt=80.0, none_share=0.2)
    found = {
        (row.kind, row.reply, row.sub_question, tuple(pair.answer for pair in row.history)) for row in made
    }
    plan = "Who directed Heidi?\nWhen was the director of Heidi born?"
    born, planned = "When was Allan Dwan born?", "When was the director of Heidi born?"
    assert found == {
        ("follow-up", born, "", ("Allan Dwan",)),
        ("rewriting", born, planned, ("Allan Dwan",)),
        ("step-back", "What is known about Heidi?", "", (REFUSAL,)),
        ("step-back", "What is known about Allan Dwan?", "", ("Allan Dwan", REFUSAL)),
        ("splitting", plan, FILM.question.text, ()),
        ("splitting", plan, "", (REFUSAL,)),
        ("none", "None", "", ("Allan Dwan", "3 April 1885")),
    }


def test_a_sub_question_without_references_is_kept_as_planned():
    steps = (ReasoningStep("How old is the cat?", "3"), ReasoningStep("How old is the dog?", "4"))
    pets = replace(FILM, supporting_facts=SupportingFacts(steps=steps))
    made, _ = rows([pets], qt=60.0, none_share=0.9)
    nones = {(row.sub_question, len(row.history)) for row in made if row.is_none}
    assert nones == {("", 2), ("How old is the dog?", 1)}


def test_answers_are_read_from_the_paragraph_that_has_them_or_refused():
    made, _ = rows([FILM], ra=80.0, refused=0.3)
    assert Counter(row.kind for row in made)["refusal"] > 5
    for row in made:
        texts = " ".join(hit.passage.text for hit in row.hits)
        assert len(row.hits) <= NOTHING.passages
        assert (row.reply in texts) == (row.kind == "answer")
        assert row.reply == {
            ("Who directed Heidi?", "answer"): "Allan Dwan",
            ("When was Allan Dwan born?", "answer"): "3 April 1885",
        }.get((row.sub_question, row.kind), REFUSAL)


def test_a_question_without_a_decomposition_is_answered_but_not_planned():
    bare = replace(FILM, supporting_facts=SupportingFacts(FILM.supporting_facts.paragraphs))
    made, left_out = rows([bare], say=2.0, qt=2.0, ra=6.0, sa=6.0, da=1.0, refused=0.0)
    assert {row.action for row in made} == {"ra", "sa", "da"}
    assert {row.reply for row in made} == {"3 April 1885"}
    assert all(row.hits for row in made if row.action != "da")
    ((name, reason),) = left_out
    assert (name, "no decomposition" in reason, left_out[name, reason]) == ("own", True, 1)


def test_without_evidence_or_answers_only_what_is_known_is_learned():
    distractor = replace(TOWER, supporting_facts=SupportingFacts((PISA,)))
    shares = {"ra": 4.0, "sa": 4.0, "da": 1.0, "refused": 0.0}
    assert [(row.action, row.reply) for row in rows([distractor], **shares)[0]] == [("da", "Arno")]
    for golds in ((), (" ",)):
        assert not rows([replace(TOWER, golds=golds)], **shares)[0]


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ((("Where is #3?", "a"), ("Who is #1?", "b"), ("#2 >> child", "c")), "not before it"),
        ((), "no decomposition"),
        ((("Who sang it?", "a"),), "no decomposition"),
        (tuple((f"What is the number {number}?", "n") for number in range(5)), "would not read completely"),
        ((("Who sang it?", "a"), ("Who sang it?", "a")), "would not read completely"),
    ],
)
def test_bad_decompositions_are_left_out_and_counted(steps, reason):
    made = tuple(ReasoningStep(*step) for step in steps)
    bad = replace(FILM, supporting_facts=SupportingFacts(steps=made))
    found, left_out = rows([bad, chain(1)], say=1.0, qt=1.0, none_share=0.0)
    assert {row.id for row in found} == {"own/m1"}
    ((_, told),) = left_out
    assert reason in told


def test_every_reply_is_well_formed_and_every_question_has_its_own_seed():
    shares = {"say": 2.0, "qt": 4.0, "ra": 1.0, "sa": 1.0, "da": 1.0}
    made, _ = rows([*CHAINS, *COMPARISONS], **shares)
    assert all(is_well_formed(row.action, row.reply) for row in made)
    assert all(row.is_none or parse_queries(row.reply) for row in made if row.action in ("say", "qt"))
    assert {row.kind for row in made if row.id == "own/s1" and row.action == "qt"} <= {"splitting"}
    alone, _ = rows([chain(3)], **shares)
    assert alone == [row for row in made if row.id == "own/m3"]
    assert rows([chain(3)], seed=1, **shares)[0] != alone


CARMEN = "Where did the composer of Carmen die?"
KNOWN = [{"question": "Who composed Carmen?", "answer": "Georges Bizet"}]
PASSAGES = [{"title": "Pisa", "text": PISA.text}]
SAY = {"action": "say", "question": CARMEN, "reply": "Who composed Carmen?\nWhere did the composer die?"}
QT = {
    "action": "qt", "question": CARMEN, "history": KNOWN, "sub_question": "Where did the composer die?",
    "reply": "Where did Georges Bizet die?",
}  # fmt: skip
RA = {"action": "ra", "question": "?", "sub_question": "Which river?", "passages": PASSAGES, "reply": "Arno"}
SA = {"action": "sa", "question": CARMEN, "history": KNOWN, "passages": PASSAGES, "reply": "Bougival"}
DA = {"action": "da", "question": CARMEN, "reply": "Bougival"}
ROWS = [SAY, QT, RA, SA, DA]


def written(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_the_prompt_of_a_row_is_that_of_the_search(tmp_path):
    rows = read_rows(written(tmp_path / "rows.jsonl", ROWS), "mine")
    builder = PromptBuilder(RAW_ONLY, rows[0].question, READER)
    history, hits = (Demo("Who composed Carmen?", "Georges Bizet"),), as_hits([PISA])
    assert [text_of(row.prompt(RAW_ONLY)) for row in rows] == [
        text_of(prompt)
        for prompt in (
            builder.say(),
            builder.qt(history, "Where did the composer die?"),
            builder.ra(hits, "Which river?"),
            builder.sa(history, hits),
            builder.da(),
        )
    ]
    example = rows[3].example(RAW_ONLY)
    assert (example.task, example.id, example.target) == ("sa", "mine/4", " Bougival")
    assert isinstance(example.prompt, Raw)


@pytest.mark.parametrize(
    ("reply", "is_good"),
    [
        ("Who composed Carmen?", True),
        ("- Who composed Carmen?\n- Where did he die?", True),
        ("1. A?\n2. B?\n3. C?\n4. D?", True),
        ("1. A?\n2. B?\n3. C?\n4. D?\n5. E?", False),
        ("None", True),
        ("", False),
        ("Here is the plan:\nWho composed Carmen?", False),
        ("Who composed Carmen?\nHe was born in Paris.", False),
        ("Who composed Carmen?\nWho composed Carmen?", False),
        ("The composer of Carmen was a man from Paris.", False),
        ("\n".join(f"What is the number {number}?" for number in range(40)), False),
    ],
)
def test_a_plan_is_well_formed_if_every_line_is_a_query(reply, is_good):
    assert is_well_formed("say", reply) == is_good
    assert is_well_formed("qt", reply) == is_good


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({**SAY, "action": "plan"}, "field action: none of 'say', 'qt', 'ra', 'sa', 'da', found 'plan'"),
        ({**SAY, "reply": " "}, "field reply: is empty"),
        ({**SAY, "reply": "It is easy, as I know the answer."}, "field reply: not None, or 1 to 4 distinct"),
        ({**SAY, "history": KNOWN}, "field history: the prompt of say does not show it: leave it out"),
        ({**DA, "reply": "…"}, "field reply: not an answer"),
        ({**RA, "passages": []}, "field passages: ra answers from passages, and there are none"),
        ({**RA, "sub_question": ""}, "field sub_question: is empty"),
        ({**QT, "history": [{"question": "Who?"}]}, "field history.0.answer: missing"),
        ({**QT, "subquestion": "Where?"}, "field subquestion: unknown; the fields are action, history,"),
        ({"action": "say", "reply": "None"}, "field question: missing"),
        (["say"], "not an object"),
    ],
)
def test_a_broken_row_is_named_with_its_line_and_the_form_of_a_good_one(tmp_path, row, expected):
    path = written(tmp_path / "rows.jsonl", [SAY, row])
    with pytest.raises(InputError) as caught:
        read_rows(path, "rows")
    told = str(caught.value)
    assert f"{path}, line 2" in told
    assert expected in told
    assert 'A row is a JSON object, such as {"action": "say"' in told


def test_an_empty_file_and_a_limit(tmp_path):
    with pytest.raises(InputError, match="has no rows"):
        read_rows(written(tmp_path / "empty.jsonl", []), "empty")
    assert len(read_rows(written(tmp_path / "rows.jsonl", ROWS), "rows", 2)) == 2
    (row,) = read_rows(written(tmp_path / "none.jsonl", [{**SAY, "reply": "None."}]), "none")
    assert (row.is_none, row.reply) == (True, "None")
