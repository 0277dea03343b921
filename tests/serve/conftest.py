"""Servers that several tests share; without the extra, no test of the folder is collected."""

import importlib.util

import pytest

if importlib.util.find_spec("fastapi") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def served(sample_index):
    """A server over the sample corpus that needs no key."""
    from tests.serve.served import serving

    with serving(sample_index) as server:
        yield server


@pytest.fixture
def own_index(tmp_path):
    """An index of two files, which a test may change."""
    from askance.retrieval.index.build import build_index

    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "bonn.txt").write_text("Bonn lies on the river Rhine.")
    (folder / "pisa.txt").write_text("Pisa lies on the river Arno.")
    build_index([folder], tmp_path / "index")
    return tmp_path / "index"
