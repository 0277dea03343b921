"""The folder of a run: what is kept, what is repaired, what is refused."""

import gzip
import json
import os
import random
import re
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from askance.configuration.evaluation import open_metrics
from askance.core.answers import Answer, Usage
from askance.core.errors import RunFolderError
from askance.core.trace import Answered, Trace
from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.run.recorded_run import RECORDS, SETTINGS, TRACES, open_run, read_run
from askance.evaluation.run.result_file import LOCK
from askance.storage.durable_files import locked_folder, sealed, unsealed
from tests.evaluation.hand_made import record, settings
from tests.storage.test_append_only import disk_with_room_for

SCORING = open_metrics(("exact_match", "f1"))


def example(number, **fields):
    given = {"question": Question(f"q{number}", f"Who built bridge {number}?"), "golds": ("Bonn",)}
    return Example(**(given | fields))


EXAMPLES = tuple(map(example, range(1, 5)))
SETTINGS_OF_4 = settings([record(n) for n in range(1, 5)])


def traced(text):
    """A trace of some size, of an answer that is `text`."""
    trace = Trace()
    trace.decide("retrieve", "keep", f"{text} is certain")
    trace.commit(text)
    trace.add(Answered, answer=Answer(text, text), usage=Usage())
    return trace


def add(folder, *numbers, examples=EXAMPLES, asked=SETTINGS_OF_4, scoring=SCORING, **how):
    """Open the run, add some questions and give what it held before."""
    with open_run(folder, lambda before: asked, examples, scoring, **how) as (writer, before):
        for number in numbers:
            writer.add([(record(number), traced(f"Bonn {number}"))])
    return [each.id for each in before.records]


def refused(folder, message, **how):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(RunFolderError, match=re.escape(message)):
        add(folder, **how)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_questions_come_back_in_the_order_of_the_dataset_with_their_traces(tmp_path):
    folder = tmp_path / "new" / "run"
    assert add(folder, 3, 1) == []
    run = read_run(folder)
    assert [each.id for each in run.records] == ["q1", "q3"]
    assert not run.is_complete
    assert run.settings == SETTINGS_OF_4
    assert [event.type for event in run.trace(run.records[1])] == ["decide", "commit", "answer"]
    assert run.trace(run.records[1])[1].text == "Bonn 3"
    assert add(folder, 2, 4) == ["q3", "q1"]
    assert read_run(folder).is_complete
    assert [read_run(folder).trace(each)[1].text for each in read_run(folder).records] == [
        f"Bonn {n}" for n in (1, 2, 3, 4)
    ]


def test_all_traces_can_be_read_by_any_tool(tmp_path):
    add(tmp_path / "run", 1, 2)
    lines = gzip.decompress((tmp_path / "run" / TRACES).read_bytes()).decode().splitlines()
    assert [json.loads(line)["type"] for line in lines] == 2 * ["header", "decide", "commit", "answer"]


@pytest.mark.parametrize("left", [1, 40, -1])
def test_a_record_cut_short_by_a_crash_is_asked_for_again(tmp_path, left):
    folder = tmp_path / "run"
    add(folder, 1, 2)
    lines = (folder / RECORDS).read_bytes().splitlines(keepends=True)
    (folder / RECORDS).write_bytes(lines[0] + lines[1][:left])
    assert [each.id for each in read_run(folder).records] == ["q1"]
    assert add(folder, 2) == ["q1"]
    assert (folder / RECORDS).read_bytes().startswith(lines[0] + b'{"checksum": ')
    assert [each.id for each in read_run(folder).records] == ["q1", "q2"]
    assert read_run(folder).trace(read_run(folder).records[1])[1].text == "Bonn 2"


def test_a_trace_without_its_record_is_cut_off(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1)
    whole = (folder / TRACES).read_bytes()
    (folder / TRACES).write_bytes(whole + b"half a trace")
    add(folder)
    assert (folder / TRACES).read_bytes() == whole


def test_half_a_character_in_an_error_does_not_spoil_the_run(tmp_path):
    folder = tmp_path / "run"
    with open_run(folder, lambda before: SETTINGS_OF_4, EXAMPLES, SCORING) as (writer, _):
        writer.add([(record(1, error="ModelFailure: no file a\udcffb"), traced("Bonn \ud800"))])
    assert add(folder, 2) == ["q1"]
    run = read_run(folder)
    assert run.records[0].error == "ModelFailure: no file a\ufffdb"
    assert run.trace(run.records[0])[1].text == "Bonn \ufffd"


def test_a_full_disk_loses_nothing_that_was_finished(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1)
    size = (folder / TRACES).stat().st_size
    with (
        pytest.raises(RunFolderError, match=r"can't write to the run .*Earlier results are kept"),
        open_run(folder, lambda before: SETTINGS_OF_4, EXAMPLES, SCORING) as (writer, _),
        disk_with_room_for(size + 8),
    ):
        writer.add([(record(2), traced("Bonn 2"))])
    assert [each.id for each in read_run(folder).records] == ["q1"]
    assert add(folder, 2) == ["q1"]


def test_one_writer_at_a_time(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1)
    with (
        locked_folder(folder, LOCK),
        pytest.raises(
            RunFolderError, match=r"can't write a run in .*: another process is writing there\. Wait until"
        ),
    ):
        add(folder, 2)
    assert read_run(folder).records


def test_other_settings_are_refused_with_what_differs(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1)
    other = replace(SETTINGS_OF_4, seed=3, parameters={"passages": "5", "new": "1"})
    refused(
        folder,
        "other settings (parameter passages: 3, now 5; seed: 0, now 3; parameter new: none, now 1)",
        asked=other,
    )


def test_a_run_does_not_go_on_in_another_precision(tmp_path):
    """For example, `auto` is a GPU in bfloat16 on one machine and a CPU in float32 on another."""
    folder = tmp_path / "run"
    asked = replace(SETTINGS_OF_4, precisions={"answer": "bfloat16"})
    add(folder, 1, asked=asked)
    other = replace(SETTINGS_OF_4, precisions={"answer": "float32"})
    refused(folder, "other settings (precision of model answer: bfloat16, now float32)", asked=other)
    assert read_run(folder).settings.precisions == {"answer": "bfloat16"}


def test_what_changes_no_answer_may_change(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1)
    moved = replace(SETTINGS_OF_4, dataset="jsonl:elsewhere/bridges.jsonl", index="moved")
    assert add(folder, 2, asked=replace(moved, started_at="later")) == ["q1"]
    assert read_run(folder).settings == moved


def test_a_run_that_goes_on_elsewhere_says_so(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1)
    elsewhere = replace(SETTINGS_OF_4, machine="64 cores", versions={"python": "3.12.1", "torch": "2.13.0"})
    for _ in range(2):
        add(folder, asked=elsewhere)
        found = read_run(folder).settings
        assert found.machine == f"{SETTINGS_OF_4.machine}, then 64 cores"
        assert found.versions == {"python": "3.11.9, then 3.12.1", "torch": "none, then 2.13.0"}


def test_showing_a_finished_run_elsewhere_does_not_say_that_it_was_asked_there(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1, 2, 3, 4)
    elsewhere = replace(SETTINGS_OF_4, machine="64 cores", versions={"python": "3.12.1"})
    add(folder, asked=elsewhere)
    found = read_run(folder).settings
    assert (found.machine, found.versions) == (SETTINGS_OF_4.machine, SETTINGS_OF_4.versions)


def test_a_run_may_grow_but_not_shrink(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1, 2, examples=EXAMPLES[:2], asked=settings([record(1), record(2)]))
    assert read_run(folder).is_complete
    assert add(folder) == ["q1", "q2"]
    assert not read_run(folder).is_complete
    refused(folder, "has 2 finished questions, of which 'q1' is not selected now", examples=EXAMPLES[1:])


def test_a_question_that_is_no_longer_the_same_is_refused(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1)
    changed = (example(1, golds=("Köln",)), *EXAMPLES[1:])
    refused(folder, "has the question 'q1' with another golds (('Bonn',))", examples=changed)


def test_a_choice_between_other_options_is_another_question(tmp_path):
    folder = tmp_path / "run"
    asked = Question("q1", "Who built bridge 1?", "choice", ("Bonn", "Köln"))
    examples, chosen = [example(1, question=asked)], record(1, task="choice", options=asked.options)
    with open_run(folder, lambda before: SETTINGS_OF_4, examples, SCORING) as (writer, _):
        writer.add([(chosen, traced("Bonn"))])
    assert add(folder, examples=examples) == ["q1"]
    changed = example(1, question=replace(asked, options=("Bonn", "Trier")))
    refused(folder, "has the question 'q1' with another options (('Bonn', 'Köln'))", examples=[changed])


def test_failures_are_asked_again_on_request(tmp_path):
    folder = tmp_path / "run"
    with open_run(folder, lambda before: SETTINGS_OF_4, EXAMPLES, SCORING) as (writer, _):
        failed = record(
            2, {"exact_match": 0.0, "f1": 0.0}, error="ModelFailure: no memory", text="", short=""
        )
        writer.add([(record(1), traced("Bonn 1")), (failed, traced("nothing"))])
    assert add(folder) == ["q1", "q2"]
    assert add(folder, 2, retry_failures=True) == ["q1"]
    assert [each.error for each in read_run(folder).records] == ["", ""]


def test_other_metrics_are_scored_from_the_traces(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1)
    scoring = open_metrics(("recall", "match"))
    asked = replace(SETTINGS_OF_4, metrics=scoring.names)
    assert add(folder, asked=asked, scoring=scoring) == ["q1"]
    assert read_run(folder).records[0].scores == {"recall": 1.0, "match": 1.0}
    assert read_run(folder).settings.metrics == ("recall", "match")


def test_a_folder_with_other_files_is_no_place_for_a_run(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    refused(tmp_path, "it holds other files (thesis.tex) and no run")


def test_what_was_opened_is_closed_where_the_rest_can_not_be(tmp_path, monkeypatch):
    add(tmp_path / "run")
    (tmp_path / "run" / TRACES).unlink()
    (tmp_path / "run" / TRACES).mkdir()
    opened, closed = [], []
    open_file, close_file = os.open, os.close
    monkeypatch.setattr(os, "open", lambda *given: opened.append(open_file(*given)) or opened[-1])
    monkeypatch.setattr(os, "close", lambda number: closed.append(number) or close_file(number))
    with pytest.raises(RunFolderError, match="Is a directory"):
        add(tmp_path / "run")
    assert len(opened) > 1
    assert sorted(closed) == sorted(opened)


@pytest.mark.parametrize("name", [RECORDS, TRACES])
def test_records_or_traces_without_settings_are_no_run_to_go_on_with(tmp_path, name):
    (tmp_path / name).write_bytes(b"precious")
    refused(tmp_path, f"it holds other files ({name}) and no run")


def test_a_kill_while_the_first_settings_are_written_is_begun_anew(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / LOCK).write_text("")
    (folder / f".{SETTINGS}.tmp").write_text('{"format": "askance-r')
    assert add(folder, 1) == []
    assert sorted(path.name for path in folder.iterdir()) == sorted([LOCK, RECORDS, SETTINGS, TRACES])


def test_a_kill_between_new_scores_and_their_settings_leaves_either_to_go_on_with(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1)
    before = (folder / SETTINGS).read_bytes()
    other = open_metrics(("recall", "match"))
    add(folder, asked=replace(SETTINGS_OF_4, metrics=other.names), scoring=other)
    (folder / SETTINGS).write_bytes(before)
    assert add(folder) == ["q1"]
    run = read_run(folder)
    assert (tuple(run.records[0].scores), run.settings.metrics) == (SCORING.names, SCORING.names)


def test_a_folder_that_was_made_for_nothing_is_gone_again(tmp_path):
    def settings_of(before):
        raise ZeroDivisionError

    with (
        pytest.raises(ZeroDivisionError),
        open_run(tmp_path / "a" / "b", settings_of, EXAMPLES, SCORING),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_place_that_can_be_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        RunFolderError, match=r"can't write a run in .*file/run: Not a directory\. Name another"
    ):
        add(tmp_path / "file" / "run", 1)


@contextmanager
def without_privileges():
    """Root may write everywhere, so tests that run as root change the user for a while."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        (0o555, "run"),  # a folder that can't be made
        (0o555, "."),  # one that can't be written to
        (0o000, "."),  # one that can't be looked into
        (0o000, "run"),
    ],
)
def test_a_forbidden_folder(mode, name):
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(mode)
        with (
            without_privileges(),
            pytest.raises(RunFolderError, match=r"can't write a run in .*: Permission denied\. Name another"),
        ):
            add(Path(place) / name, 1)
        Path(place).chmod(0o755)
        assert not list(Path(place).iterdir())


def flawed(folder, name, change):
    """Other checks find damage that checksums do not find."""
    add(folder, 1, 2)
    path = folder / name

    def each_line(change, content):
        return b"\n".join(map(change, content.removesuffix(b"\n").split(b"\n"))) + b"\n"

    each = each_line if name == RECORDS else lambda change, content: change(content)
    content = each(unsealed, path.read_bytes()).decode()
    path.write_bytes(each(sealed, change(content).encode()))
    return path


@pytest.mark.parametrize("name", [RECORDS, SETTINGS, TRACES])
def test_one_wrong_bit_in_any_byte_is_refused(tmp_path, name):
    """The error gives the file and, if it has lines, the line, wherever a run is read or continued."""
    folder = tmp_path / "run"
    add(folder, 1, 2)
    path, chosen = folder / name, random.Random(8)
    whole = path.read_bytes()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(RunFolderError) as caught:
            read_run(folder)
        line = 1 + whole[:at].count(b"\n") if name == RECORDS else 1
        place = f"{path}, line {line}:" if name != TRACES else f"{path} ("
        assert place in str(caught.value)
        assert "The file is damaged: restore it" in str(caught.value)
        if at % 50 == 0:
            refused(folder, place)
    path.write_bytes(whole)
    assert len(read_run(folder).records) == 2


def test_a_last_line_whose_break_is_damaged_is_not_taken_for_half_a_line(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1, 2)
    content = (folder / RECORDS).read_bytes()
    (folder / RECORDS).write_bytes(content[:-1] + b"\x0b")
    refused(folder, "records.jsonl, line 2: its line break is damaged")
    (folder / RECORDS).write_bytes(content[:-1])
    assert add(folder, 2) == ["q1"]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (RECORDS, lambda text: text.replace('"id"', "id", 1), "line 1: Invalid JSON"),
        (RECORDS, lambda text: text.replace('"number": 2', '"number": "two"'), "line 2, field number: "),
        (SETTINGS, lambda text: text.replace('"schema": 1', '"schema": 7'), "of schema 1, which this"),
        (SETTINGS, lambda text: text.replace("askance-run", "other"), "holds no settings of a run"),
        (RECORDS, lambda text: text + text[: text.index("\n") + 1], "line 3: the question 'q1' is on line 1"),
        (SETTINGS, lambda text: text[:50], "settings.json, line 1: Unterminated string"),
        (SETTINGS, lambda text: text.replace('"seed": 0', '"seed": "x"'), "field seed: Input"),
    ],
)  # fmt: skip
def test_damage_is_named_and_not_repaired(tmp_path, name, change, message):
    path = flawed(tmp_path / "run", name, change)
    for read in (read_run, add):
        with pytest.raises(RunFolderError, match=re.escape(message)) as caught:
            read(tmp_path / "run")
        assert str(path.parent) in str(caught.value)


def test_a_damaged_trace_is_named(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1)
    run = read_run(folder)
    content = bytearray((folder / TRACES).read_bytes())
    content[20] ^= 255
    (folder / TRACES).write_bytes(content)
    with pytest.raises(
        RunFolderError, match=r"can't read the trace of question 'q1' in .*The file is damaged"
    ):
        run.trace(run.records[0])


def test_records_that_were_taken_away_are_missed(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1, 2)
    (folder / RECORDS).unlink()
    refused(folder, "records.jsonl is missing: restore it")
    (folder / TRACES).unlink()
    assert add(folder, 1) == [], "with nothing but its settings a run has just begun"


def test_a_trace_that_is_not_there_is_named_and_nothing_is_put_in_its_place(tmp_path):
    folder = tmp_path / "run"
    add(folder, 1, 2)
    size, run = (folder / TRACES).stat().st_size, read_run(folder)
    os.truncate(folder / TRACES, size - 1)
    refused(folder, "can't read the trace of question 'q2'")
    with pytest.raises(RunFolderError, match=r"question 'q2' in .*: it ends before that trace does"):
        read_run(folder)
    assert run.trace(run.records[0])
    with pytest.raises(RunFolderError, match=r"question 'q2' in .*: it ends before that trace does"):
        run.trace(run.records[1])
    (folder / TRACES).unlink()
    refused(folder, "gz is missing: restore it")
    with pytest.raises(RunFolderError, match="gz is missing: restore it"):
        run.trace(run.records[0])


def test_no_run_at_all(tmp_path):
    with pytest.raises(RunFolderError, match=r"holds no run"):
        read_run(tmp_path / "nowhere")
