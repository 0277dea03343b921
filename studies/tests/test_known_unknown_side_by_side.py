"""Every run of the study is made once, and a part that fails stops the others."""

import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from askance.core.errors import InputError, MissingExtra
from studies.known_unknown import runs
from studies.known_unknown.side_by_side import make_runs

REFLECTED = "the model that reflects", "", None, None


@pytest.fixture
def made(monkeypatch):
    """The runs that were made: (name, documents, threshold, ids)."""
    made = []

    def make_run(out, name, settings, documents, ids=None):
        made.append((name, documents, settings.get("set", {}).get("chosen"), ids))

    def choose_threshold(out, name, *, is_shown):
        return {"method": name, "set": {"chosen": name}}

    monkeypatch.setattr(runs, "make_run", make_run)
    monkeypatch.setattr(runs, "choose_threshold", choose_threshold)
    return made


def test_every_run_is_made_once(made, tmp_path):
    finished = []
    with ThreadPoolExecutor(2) as pool:
        make_runs(pool, tmp_path, tmp_path / "ids.txt", lambda: made.append(REFLECTED), finished.append)
    tables = runs.tables()
    before = [name for name, *_ in made[: made.index(REFLECTED)]]
    assert all(runs.model_of(name) == "reader" for name in before)
    made.remove(REFLECTED)
    expected = Counter(
        (name, documents)
        for name in {**tables["methods"], **tables["drafts"], **tables["calibrated"]}
        for documents in runs.documents_of(name)
    )
    expected.update((f"query-{mode}", "fresh") for mode in tables["queries"]["modes"])
    assert Counter((name, documents) for name, documents, _, _ in made) == expected
    for name, _, chosen, ids in made:
        is_query = name.startswith("query-")
        method = tables["queries"]["method"] if is_query else name
        assert chosen == (method if method in tables["calibrated"] else None), "with its own threshold"
        assert ids == (tmp_path / "ids.txt" if is_query else None)
    assert len(finished) == expected.total() + len(tables["calibrated"]) + 1


def test_the_model_that_reflects_can_be_left_out(made, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        make_runs(pool, tmp_path, tmp_path / "ids.txt")
    assert made
    assert all(runs.model_of(name) == "reader" for name, *_ in made)


def test_a_part_that_fails_is_told(made, monkeypatch, tmp_path):
    """The error reaches another process, which some errors can't: they take more than a message."""

    def fails(out, name, *, is_shown):
        raise MissingExtra("torch", "local", f"a threshold of {name}")

    monkeypatch.setattr(runs, "choose_threshold", fails)
    with ThreadPoolExecutor(1) as pool, pytest.raises(InputError, match="a threshold of") as raised:
        make_runs(pool, tmp_path, tmp_path / "ids.txt")
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_every_run_is_a_valid_experiment(tmp_path):
    """The settings of all methods, and of the query modes over some questions, as a user could write them."""
    tables = runs.tables()
    made = {name: settings for name, settings, _ in runs.uncalibrated_runs(reflects=True)}
    for name, table in tables["calibrated"].items():
        made[name] = {"method": table.get("method", name), "set": table.get("set", {})}
    query = runs.query_runs(made[tables["queries"]["method"]])
    (tmp_path / "ids.txt").write_text("q7\n")
    for settings, ids in ((made, None), (query, tmp_path / "ids.txt")):
        grid = runs.run_table(tmp_path, settings, ["stale", "fresh"], ids)
        experiments = list(grid.experiments())
        assert len(experiments) == 2 * len(settings)
