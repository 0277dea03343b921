"""Files of rows: what they may say, and that every flaw is named with its place and remedy."""

import json

import pytest
from lab.tests.training.reader.sample_examples import PISA, RAW_ONLY, text_of

from askance.core.errors import InputError
from askance.core.types import Demo, Raw
from askance.methods.airrag.prompts import READER, PromptBuilder
from askance_lab.training.actions.rows import is_well_formed, read_rows
from askance_lab.training.reader.passages import as_hits

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


def test_none_is_read_as_none_in_every_spelling(tmp_path):
    rows = [{**SAY, "reply": reply} for reply in ("None", "None.")]
    assert [row.reply for row in read_rows(written(tmp_path / "r.jsonl", rows), "r") if row.is_none] == [
        "None", "None",
    ]  # fmt: skip


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
