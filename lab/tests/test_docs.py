"""The pages on training tell the truth: they name every setting, and their rows can be read."""

import dataclasses
import json
import re

import pytest
from recipes.reader.data_mix import RecipeSettings
from recipes.tests.test_data_mix import TASKS

from askance.configuration.evaluation import read_dataset
from askance_lab.training.actions.rows import read_rows
from askance_lab.training.actions.settings import ActionSettings
from askance_lab.training.reader.settings import ReaderSettings
from askance_lab.training.reward.train_features import FeatureSettings
from askance_lab.training.reward.train_reward import RewardSettings
from askance_lab.training.selfrag.rows import parse_output
from askance_lab.training.selfrag.settings import SelfRagSettings
from tests.test_docs import ROOT, table_rows


def test_the_question_on_the_page_on_readers_is_one_on_a_line_of_a_file(tmp_path):
    page = (ROOT / "docs" / "reader.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "my-questions.jsonl"
    path.write_text(" ".join(block.split("\n")), encoding="utf-8")
    (example,) = read_dataset(f"jsonl:{path}")
    assert [paragraph.is_supporting for paragraph in example.supporting_facts.paragraphs] == [True, False]


FURTHER = dataclasses.fields(RecipeSettings)[len(dataclasses.fields(ReaderSettings)) :]


@pytest.mark.parametrize(
    ("name", "fields", "head"),
    [
        ("reader", dataclasses.fields(ReaderSettings), "setting"),
        ("reader", FURTHER, "share"),
        ("train_selfrag", dataclasses.fields(SelfRagSettings), "setting"),
        ("train_reward", dataclasses.fields(RewardSettings), "setting"),
        ("train_reward", dataclasses.fields(FeatureSettings), "setting of `features`"),
        ("train_actions", dataclasses.fields(ActionSettings), "setting"),
    ],
)
def test_pages_on_training_name_every_setting(name, fields, head):
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    defaults = {}
    for names, values, _ in table_rows(page, head):
        defaults |= dict(zip(re.findall(r"\w+", names), values.split(", "), strict=True))
    known = {field.name: field.default for field in fields}
    assert defaults.keys() == known.keys()
    for name, default in known.items():
        is_number = isinstance(default, int | float) and not isinstance(default, bool)
        shown = f"{default:g}" if is_number else str(default).lower()
        assert defaults[name] == shown, name


def test_the_page_on_readers_names_every_task():
    page = (ROOT / "docs" / "reader.md").read_text(encoding="utf-8")
    rows = (*table_rows(page, "task"), *table_rows(page, "further task"))
    assert {name for row in rows for name in row[0].split(", ")} == TASKS


def test_the_page_on_training_self_rag_has_a_row_with_tokens():
    page = (ROOT / "docs" / "train_selfrag.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert parse_output(json.loads(row)["output"]).tokens[0] == "[Retrieval]"


def test_the_page_on_training_actions_has_a_row_that_is_read(tmp_path):
    page = (ROOT / "docs" / "train_actions.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "rows.jsonl"
    path.write_text(" ".join(block.split("\n")), encoding="utf-8")
    (row,) = read_rows(path, "rows")
    assert (row.action, row.reply) == ("qt", "Where did Georges Bizet die?")
