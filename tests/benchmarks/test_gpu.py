"""The sheet for GPUs runs whole on a tiny model, and reports parts that do not finish."""

import json
import sys
from functools import partial

import pytest

pytest.importorskip("torch")

from benchmarks import gpu

DECODED = ("plain forward passes", "generate of transformers")
DECODED += ("askance with no signals", "askance with entropy and attention")
ROWS = [(f"{what}, batch {number}", "tokens/s") for number in (1, 8, 32) for what in DECODED] + [
    (what, unit)
    for what, first in (
        ("2 calls of DRAGIN, without prefix cache", "s"),
        ("2 calls of DRAGIN, with prefix cache", "s"),
        ("DRAGIN, 2 in flight", "questions/s"),
    )
    for unit in (first, "tokens computed")
]


def test_a_dry_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["gpu", "--dry-run", "--log", "log.md"])
    gpu.main()
    (record,) = (json.loads(path.read_text()) for path in (tmp_path / ".bench").iterdir())
    assert f"dry run, torch {gpu.torch.__version__}" in record["machine"]
    rows = record["rows"]
    assert [(row["what"], row["unit"]) for row in rows] == ROWS
    assert all(row["median"] > 0 for row in rows)
    computed = [row["median"] for row in rows if row["unit"] == "tokens computed"]
    assert computed[1] < 0.7 * computed[0], "the prefix cache saves tokens"
    table = (tmp_path / "log.md").read_text()
    assert table.count("\n| ") == 2 + len(ROWS)


@pytest.mark.parametrize(
    ("num_texts", "limit_s", "last"),
    [(0, 60, "part: failed, see the error above"), (1, 0, "part: stopped at its time limit")],
)
def test_a_part_that_does_not_finish(num_texts, limit_s, last):
    *_, row = gpu.rows_of("part", partial(gpu.decoding, num_texts=num_texts), gpu.DRY, limit_s)
    assert row.what == last
