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
from tests.storage.test_durable_files import disk_with_room_for
from tests.tolerances import near

SCORING, OTHER_SCORING = open_metrics(("exact_match", "f1")), open_metrics(("recall", "match"))


def example(number, **fields):
    question = Question(f"q{number}", f"Who built bridge {number}?")
    return Example(**({"question": question, "golds": ("Bonn",)} | fields))


EXAMPLES = tuple(map(example, range(1, 5)))
OF_4 = settings([record(n) for n in range(1, 5)])


def traced(text):
    """Return a trace of some size, of an answer that is `text`."""
    trace = Trace()
    trace.decide("retrieve", "keep", f"{text} is certain")
    trace.commit(text)
    trace.add(Answered, answer=Answer(text, text), usage=Usage())
    return trace


def finished(number, **fields):
    return record(number, **fields), traced(f"Bonn {number}")


def add(folder, *questions, examples=EXAMPLES, asked=OF_4, scoring=SCORING, **how):
    """Open the run, add questions (numbers, or records with traces), and return the ids it held before."""
    with open_run(folder, lambda before: asked, examples, scoring, **how) as (writer, before):
        for each in questions:
            writer.add([finished(each) if isinstance(each, int) else each])
    return [each.id for each in before.records]


def refused(folder, message, **how):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(RunFolderError, match=re.escape(message)):
        add(folder, **how)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "new" / "run"


def test_questions_come_back_in_the_order_of_the_dataset_with_their_traces(folder):
    assert add(folder, 3, 1) == []
    run = read_run(folder)
    assert (run.settings, run.is_complete, [each.id for each in run.records]) == (OF_4, False, ["q1", "q3"])
    assert [event.type for event in run.trace(run.records[1])] == ["decide", "commit", "answer"]
    assert add(folder, 2, 4) == ["q3", "q1"]
    run = read_run(folder)
    assert run.is_complete
    assert [run.trace(each)[1].text for each in run.records] == [f"Bonn {n}" for n in (1, 2, 3, 4)]
    lines = gzip.decompress((folder / TRACES).read_bytes()).decode().splitlines()
    assert [json.loads(line)["type"] for line in lines] == 4 * ["header", "decide", "commit", "answer"]


@pytest.mark.parametrize("left", [1, 40, -1])
def test_what_a_crash_cut_short_is_asked_for_again(folder, left):
    add(folder, 1)
    traces = (folder / TRACES).read_bytes()
    add(folder, 2)
    lines = (folder / RECORDS).read_bytes().splitlines(keepends=True)
    (folder / RECORDS).write_bytes(lines[0] + lines[1][:left])
    assert [each.id for each in read_run(folder).records] == ["q1"]
    assert add(folder) == ["q1"]
    assert (folder / TRACES).read_bytes() == traces, "a trace without its record is cut off"
    assert add(folder, 2) == ["q1"]
    assert (folder / RECORDS).read_bytes().startswith(lines[0] + b'{"checksum": ')
    assert read_run(folder).trace(read_run(folder).records[1])[1].text == "Bonn 2"


def test_half_a_character_in_an_error_does_not_spoil_the_run(folder):
    add(folder, (record(1, error="ModelFailure: no file a\udcffb"), traced("Bonn \ud800")))
    assert add(folder, 2) == ["q1"]
    run = read_run(folder)
    assert run.records[0].error == "ModelFailure: no file a\ufffdb"
    assert run.trace(run.records[0])[1].text == "Bonn \ufffd"


def test_a_full_disk_loses_nothing_that_was_finished(folder):
    add(folder, 1)
    size = (folder / TRACES).stat().st_size
    with (
        pytest.raises(RunFolderError, match=r"can't write to the run .*Earlier results are kept"),
        open_run(folder, lambda before: OF_4, EXAMPLES, SCORING) as (writer, _),
        disk_with_room_for(size + 8),
    ):
        writer.add([finished(2)])
    assert add(folder, 2) == ["q1"]


def test_one_writer_at_a_time(folder):
    add(folder, 1)
    told = r"can't write a run in .*: another process is writing there\. Wait until"
    with locked_folder(folder, LOCK), pytest.raises(RunFolderError, match=told):
        add(folder, 2)
    assert read_run(folder).records


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        (
            {},
            {"seed": 3, "parameters": {"passages": "5", "new": "1"}},
            "other settings (parameter passages: 3, now 5; seed: 0, now 3; parameter new: none, now 1)",
        ),
        # For example, `auto` is a GPU in bfloat16 on one machine and a CPU in float32 on another.
        (
            {"precisions": {"answer": "bfloat16"}},
            {"precisions": {"answer": "float32"}},
            "other settings (precision of model answer: bfloat16, now float32)",
        ),
        # The first run is of a version that recorded no code.
        (
            {},
            {"code": {"askance": "2b"}},
            "other code (code of askance: none, now 2b): name another --out, r",
        ),
        (
            {"code": {"x": "1a"}},
            {"code": {"x": "2b"}, "seed": 1},
            "settings (seed: 0, now 1; code of x: 1a, n",
        ),
    ],
)
def test_other_settings_are_refused_with_what_differs(folder, before, now, message):
    add(folder, 1, asked=replace(OF_4, **before))
    refused(folder, message, asked=replace(OF_4, **now))
    assert read_run(folder).settings == replace(OF_4, **before)


def test_what_changes_no_answer_may_change(folder):
    add(folder, 1)
    moved = replace(OF_4, dataset="jsonl:elsewhere/bridges.jsonl", index="moved")
    assert add(folder, 2, asked=replace(moved, started_at="later")) == ["q1"]
    assert read_run(folder).settings == moved
    add(folder, asked=replace(moved, metrics=OTHER_SCORING.names), scoring=OTHER_SCORING)
    run = read_run(folder)
    assert (run.records[0].scores, run.settings.metrics) == ({"recall": 1, "match": 1}, ("recall", "match"))


def test_other_code_is_accepted_on_request_and_recorded(folder):
    """What was scored by the code before is scored again."""
    old, new, third = (replace(OF_4, code={"askance": "0", "x": source}) for source in ("1a", "2b", "3c"))
    add(folder, finished(1, scores={"exact_match": 0.0, "f1": 0.0}), 2, asked=old)
    for asked, number in ((new, 3), (new, 4), (third, None)):
        refused(folder, "go on with --accept-new-code", asked=third)
        add(folder, *filter(None, [number]), asked=asked, accept_new_code=True)
        assert read_run(folder).settings.code == {"askance": "0", "x": "1a, then from question 3 on 2b"}
    assert read_run(folder).records[0].scores["f1"] == near(2 / 3)
    add(folder, asked=new)
    refused(folder, "(seed: 0, now 1)", asked=replace(new, seed=1), accept_new_code=True)


def test_a_run_without_questions_begins_when_it_goes_on(folder):
    add(folder)
    later = replace(OF_4, started_at="later", in_flight="2", machine="64 cores")
    for number, asked in ((1, later), (2, replace(later, started_at="last", in_flight="8"))):
        add(folder, number, asked=asked)
    assert read_run(folder).settings == replace(later, in_flight="2, then 8")


def test_only_questions_that_are_asked_elsewhere_change_the_machine(folder):
    elsewhere = replace(OF_4, machine="64 cores", versions={"python": "3.12.1", "torch": "2.13.0"})
    add(folder, 1, 2, 3)
    for _ in range(2):
        add(folder, asked=elsewhere)
        found = read_run(folder).settings
        assert found.machine == f"{OF_4.machine}, then 64 cores"
        assert found.versions == {"python": "3.11.9, then 3.12.1", "torch": "none, then 2.13.0"}
    add(folder, 4, asked=elsewhere)
    add(folder, asked=OF_4)
    assert read_run(folder).settings == found, "a finished run is shown there, and nothing is asked"


def test_a_run_may_grow_but_not_shrink(folder):
    add(folder, 1, 2, examples=EXAMPLES[:2], asked=settings([record(1), record(2)]))
    assert read_run(folder).is_complete
    assert add(folder) == ["q1", "q2"]
    assert not read_run(folder).is_complete
    refused(folder, "has 2 finished questions, of which 'q1' is not selected now", examples=EXAMPLES[1:])


def test_a_question_that_is_no_longer_the_same_is_refused(folder):
    asked = Question("q1", "Who built bridge 1?", "choice", ("Bonn", "Köln"))
    examples = [example(1, question=asked)]
    add(folder, finished(1, task="choice", options=asked.options), examples=examples)
    assert add(folder, examples=examples) == ["q1"]
    for change, told in (
        ({"question": replace(asked, options=("Bonn",))}, "another options (('Bonn', 'Köln'))"),
        ({"question": asked, "golds": ("Köln",)}, "another golds (('Bonn',))"),
    ):
        refused(folder, f"has the question 'q1' with {told}", examples=[example(1, **change)])


def test_failures_are_asked_again_on_request(folder):
    failed = finished(2, error="ModelFailure: no memory", text="", short="")
    add(folder, 1, failed)
    assert add(folder) == ["q1", "q2"]
    assert add(folder, 2, retry_failures=True) == ["q1"]
    assert [each.error for each in read_run(folder).records] == ["", ""]


@pytest.mark.parametrize("name", ["thesis.tex", RECORDS, TRACES])
def test_a_folder_with_other_files_is_no_place_for_a_run(tmp_path, name):
    (tmp_path / name).write_text("precious")
    refused(tmp_path, f"it holds other files ({name}) and no run")


def test_files_are_closed_if_the_rest_can_not_be_opened(folder, monkeypatch):
    add(folder)
    (folder / TRACES).unlink()
    (folder / TRACES).mkdir()
    opened, closed = [], []
    open_file, close_file = os.open, os.close
    monkeypatch.setattr(os, "open", lambda *given: opened.append(open_file(*given)) or opened[-1])
    monkeypatch.setattr(os, "close", lambda number: closed.append(number) or close_file(number))
    with pytest.raises(RunFolderError, match="Is a directory"):
        add(folder)
    assert len(opened) > 1
    assert sorted(closed) == sorted(opened)


def test_a_kill_at_the_settings_leaves_a_run_to_go_on_with(tmp_path, folder):
    (tmp_path / LOCK).write_text("")
    (tmp_path / f".{SETTINGS}.tmp").write_text('{"format": "askance-r')
    assert add(tmp_path, 1) == []
    assert {path.name for path in tmp_path.iterdir()} == {LOCK, RECORDS, SETTINGS, TRACES}
    add(folder, 1)
    before = (folder / SETTINGS).read_bytes()
    add(folder, asked=replace(OF_4, metrics=OTHER_SCORING.names), scoring=OTHER_SCORING)
    (folder / SETTINGS).write_bytes(before)  # the new scores were written, and their settings not yet
    assert add(folder) == ["q1"]
    run = read_run(folder)
    assert (tuple(run.records[0].scores), run.settings.metrics) == (SCORING.names, SCORING.names)


def test_a_folder_that_was_made_for_nothing_is_removed(tmp_path, folder):
    def settings_of(before):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), open_run(folder, settings_of, EXAMPLES, SCORING):
        pass
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=r"can't write a run in .*file/run: Not a directory\. Name ano"):
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


@pytest.mark.parametrize("mode", [0o555, 0o000])
@pytest.mark.parametrize("name", ["run", "."])
def test_a_forbidden_folder(mode, name):
    told = r"can't write a run in .*: Permission denied\. Name another"
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(mode)
        with without_privileges(), pytest.raises(RunFolderError, match=told):
            add(Path(place) / name, 1)
        Path(place).chmod(0o755)
        assert not list(Path(place).iterdir())


@pytest.mark.parametrize("name", [RECORDS, SETTINGS, TRACES])
def test_one_wrong_bit_in_any_byte_is_refused(folder, name):
    """The error gives the file and, if it has lines, the line, wherever a run is read or continued."""
    add(folder, 1, 2)
    path, chosen = folder / name, random.Random(8)
    whole = path.read_bytes()
    for at in (*range(0, len(whole), 3), len(whole) - 1):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(RunFolderError) as caught:
            read_run(folder)
        line = 1 + whole[:at].count(b"\n") if name == RECORDS else 1
        place = f"{path}, line {line}:" if name != TRACES else f"{path} ("
        assert place in str(caught.value)
        assert "The file is damaged: restore it" in str(caught.value)
        if at % 150 == 0:
            refused(folder, place)
    path.write_bytes(whole)
    assert len(read_run(folder).records) == 2


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (RECORDS, '"id"', "id", "line 1: Invalid JSON"),
        (RECORDS, '"number": 2', '"number": "two"', "line 2, field number: "),
        (RECORDS, '"q2"', '"q1"', "line 2: the question 'q1' is on line 1"),
        (SETTINGS, '"schema": 1', '"schema": 7', "of schema 1, which this"),
        (SETTINGS, "askance-run", "other", "holds no settings of a run"),
        (SETTINGS, '"format"', '"format', "settings.json, line 1: "),
        (SETTINGS, '"seed": 0', '"seed": "x"', "field seed: Input"),
    ],
)
def test_damage_that_no_checksum_shows_is_named_and_not_repaired(folder, name, old, new, message):
    add(folder, 1, 2)
    path = folder / name
    content, end = path.read_bytes(), b"\n" if name == RECORDS else b""
    parts = content.split(b"\n")[:-1] if name == RECORDS else [content]
    changed = [unsealed(part).decode() for part in parts]
    at = next(number for number, part in enumerate(changed) if old in part)
    changed[at] = changed[at].replace(old, new, 1)
    path.write_bytes(b"".join(sealed(part.encode()) + end for part in changed))
    for read in (read_run, add):
        with pytest.raises(RunFolderError, match=re.escape(message)) as caught:
            read(folder)
        assert str(folder) in str(caught.value)


def test_files_that_were_taken_away_are_missed_and_not_replaced(folder):
    add(folder, 1, 2)
    run, whole = read_run(folder), (folder / TRACES).read_bytes()

    def cut_off():
        return pytest.raises(RunFolderError, match=r"question 'q2' in .*: it ends before that trace does")

    (folder / TRACES).write_bytes(whole[:20] + b"\xff" + whole[21:])
    with pytest.raises(RunFolderError, match=r"the trace of question 'q1' in .*The file is damaged"):
        run.trace(run.records[0])
    (folder / TRACES).write_bytes(whole[:-1])
    refused(folder, "can't read the trace of question 'q2'")
    with cut_off():
        read_run(folder)
    with cut_off():
        run.trace(run.records[1])
    assert run.trace(run.records[0])
    (folder / TRACES).unlink()
    refused(folder, "gz is missing: restore it")
    with pytest.raises(RunFolderError, match="gz is missing: restore it"):
        run.trace(run.records[0])
    (folder / TRACES).write_bytes(whole)
    (folder / RECORDS).unlink()
    refused(folder, "records.jsonl is missing: restore it")
    (folder / TRACES).unlink()
    assert add(folder, 1) == [], "with nothing but its settings a run has just begun"
    with pytest.raises(RunFolderError, match=r"holds no run"):
        read_run(folder / "nowhere")
