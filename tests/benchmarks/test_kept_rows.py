"""The rows of a measurement that is stopped and continued."""

from unittest.mock import patch

import pytest
from benchmarks.kept_rows import kept_rows

from askance.core.errors import InputError
from askance.storage.durable_files import AppendOnlyFile

SETTINGS = {"model": "scripted"}


def test_rows_are_there_again_and_half_a_row_is_not(tmp_path):
    with kept_rows(tmp_path / "out", SETTINGS) as (kept, add):
        add({"id": "a", "sentences": []})
        assert "b" not in kept
    path = tmp_path / "out" / "questions.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write('{"id": "b", "sen')
    with kept_rows(tmp_path / "out", SETTINGS) as (kept, add):
        assert kept["a"] == {"id": "a", "sentences": []}
        assert "b" not in kept
        add({"id": "b"})
    with kept_rows(tmp_path / "out", SETTINGS) as (kept, _):
        assert list(kept.values()) == [{"id": "a", "sentences": []}, {"id": "b"}]


def test_other_settings_may_be_tried_before_the_first_question(tmp_path):
    with kept_rows(tmp_path, {"model": "other"}):
        pass
    with kept_rows(tmp_path, SETTINGS) as (_, add):
        add({"id": "a"})
    with (
        pytest.raises(InputError, match="were made with model 'scripted', now it is 'other'"),
        kept_rows(tmp_path, {"model": "other"}),
    ):
        pass
    with kept_rows(tmp_path, SETTINGS) as (kept, _):
        assert list(kept) == ["a"]


def test_an_error_of_the_measurement_is_not_taken_for_one_of_the_file(tmp_path):
    with pytest.raises(ConnectionRefusedError), kept_rows(tmp_path, SETTINGS):
        raise ConnectionRefusedError
    with (
        kept_rows(tmp_path, SETTINGS) as (_, add),
        patch.object(AppendOnlyFile, "append", side_effect=OSError(28, "No space left on device")),
        pytest.raises(InputError, match="can't write"),
    ):
        add({"id": "a"})


def test_one_process_at_a_time(tmp_path):
    with (
        kept_rows(tmp_path, SETTINGS),
        pytest.raises(InputError, match="another process is writing there"),
        kept_rows(tmp_path, SETTINGS),
    ):
        pass


def test_what_can_not_be_read_or_written(tmp_path):
    (tmp_path / "questions.jsonl").write_bytes(b"{}\nnot JSON\n")
    with pytest.raises(InputError, match="is damaged"), kept_rows(tmp_path, SETTINGS):
        pass
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="can't write"), kept_rows(tmp_path / "file", SETTINGS):
        pass
