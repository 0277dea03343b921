"""MAUVE: the frontier by hand, what is embedded, and a run with the bundled encoder."""

import asyncio
import json
from itertools import pairwise
from math import exp, log
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from askance.configuration.build import load_encoder
from askance.core.answers import Answer
from askance.core.errors import InputError, MissingExtra
from askance.evaluation.judging.judge_run import check_can_be_judged
from askance.evaluation.judging.mauve import frontier_area, judge_mauve, mauve
from askance.models.scripted import ScriptedEncoder
from tests.evaluation.hand_made import answered, record, written
from tests.tolerances import near

RIVERS = "Elbe Oder Main Isar Lech Inn Spree Havel Saale Neisse Ems Weser Leine Aller Mosel Nahe Lahn".split()


def run_of(folder, texts, golds=None):
    records = [
        record(number, question="Which river?", text=text, golds=(gold, "other"))
        for number, (text, gold) in enumerate(zip(texts, golds or texts, strict=True), start=1)
    ]
    return written(folder, records, [answered(Answer(text)) for text in texts])


def test_the_frontier_by_hand():
    """Between two distributions that share no cluster, a point is ((1 - w) ** 5, w ** 5)."""
    weights = [1e-6 + number * (1 - 2e-6) / 24 for number in range(25)]
    points = [(1, 0), *(((1 - w) ** 5, w**5) for w in weights), (0, 1)]
    area = sum((a - c) * (b + d) / 2 for (a, b), (c, d) in pairwise(points))
    assert frontier_area([1, 0], [0, 1]) == near(area)
    assert frontier_area([0.5, 0.5], [0.5, 0.5]) == near(1)
    middle = exp(-5 * (2 / 3 * log(4 / 3) + 1 / 3 * log(2 / 3)))  # at w = 1/2, of (2/3, 1/3) and its mirror
    found = frontier_area([2 / 3, 1 / 3], [1 / 3, 2 / 3])
    assert middle < found < 1
    assert found == near(0.8608592186099752), "as the package mauve-text 0.4.0 has it"
    assert frontier_area([0.1, 0.2, 0.3, 0.4], [0.5, 0.25, 0.25, 0]) == near(0.2871642508927387), "the same"


def test_vectors_that_fall_apart_and_equal_ones():
    x, y = np.eye(2)[[0] * 10], np.eye(2)[[1] * 10]
    assert mauve(x, y) == near(frontier_area([1, 0], [0, 1]))
    assert mauve(np.concatenate([x, y]), np.concatenate([y, x])) == near(1)
    assert mauve(x, x) == near(1), "a single cluster"


def test_the_texts_that_are_compared_and_what_is_kept(tmp_path):
    class Recording(ScriptedEncoder):
        texts = ()

        async def embed(self, texts, kind="text"):
            self.texts = (*self.texts, *texts)
            return await super().embed(texts, kind)

    encoder = Recording()
    run = run_of(tmp_path / "run", ["The Elbe [1]. ", "", "word " * 200], ["Elbe!", "Oder", "Main"])
    judged = asyncio.run(judge_mauve(run, encoder, "scripted"))
    golds = ("Which river? Elbe", "Which river? Oder", "Which river? Main")
    assert encoder.texts[:5] == (*golds, "Which river? The Elbe", "Which river")
    assert encoder.texts[5].split() == ["Which", "river?", *["word"] * 98]
    kept = json.loads(Path(judged.file).read_text())
    score = judged.scores["mauve"]
    assert (kept["kind"], kept["judge"], kept["num_questions"]) == ("mauve", "scripted", 3)
    assert kept["scores"]["mauve"]["mean"] == score.mean
    assert score.low <= score.mean <= score.high


def test_a_run_with_the_bundled_encoder(tmp_path):
    golds = [f"The {river} is a river in Germany." for river in RIVERS]
    same = run_of(tmp_path / "same", golds)
    other = run_of(tmp_path / "other", [f"{river} {river} {river}?!" for river in RIVERS], golds)
    encoder = load_encoder("bundled")
    judged = [asyncio.run(judge_mauve(run, encoder, "bundled")) for run in (same, other)]
    alike, unlike = (each.scores["mauve"] for each in judged)
    assert alike.mean == near(1)
    assert unlike.high < 0.2


def test_runs_without_gold_answers_and_without_the_package(tmp_path, monkeypatch):
    run = written(tmp_path / "lives", [record(1, id="Clara", golds=())])
    with pytest.raises(InputError, match=r"question 'Clara' of the run .*lives has no gold answer"):
        check_can_be_judged(run, ["mauve"])
    monkeypatch.setattr("askance.evaluation.judging.judge_run.find_spec", lambda package: None)
    with pytest.raises(MissingExtra, match="'scikit-learn'"):
        check_can_be_judged(run_of(tmp_path / "run", ["a"]), ["mauve"])
