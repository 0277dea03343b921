"""The port `Collection` over folders and over a real PostgreSQL server."""

from itertools import count

import pytest
from tests.contracts.collection_contract import CollectionContract


class TestFolder(CollectionContract):
    @pytest.fixture(scope="class")
    @classmethod
    def new_place(cls, tmp_path_factory):
        return lambda: tmp_path_factory.mktemp("collection") / "index"

    @pytest.fixture
    def impatient(self):
        pass


class TestPostgres(CollectionContract):
    @pytest.fixture(scope="class")
    @classmethod
    def new_place(cls, postgres):
        numbers = count()
        return lambda: postgres.url(f"c{next(numbers)}")

    @pytest.fixture
    def impatient(self, monkeypatch):
        monkeypatch.setattr("askance.retrieval.index.postgres.LOCK_SECONDS", 0.1)
