"""Files of traces: a round trip of every event, and damage that is named by its line."""

import asyncio
import json
import random

import pytest

from askance.configuration.methods import make_method
from askance.core.errors import InputError, TraceFileError
from askance.core.trace import SCHEMA_VERSION
from askance.core.types import Hit, Passage, Question
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.storage.durable_files import sealed, unsealed
from askance.storage.trace_file import read_trace, trace_text, write_file
from tests.asking import ask

PASSAGE = Passage("a", "Köln", "Köln lies on the Rhine.", "a.txt", 0, 23)


@pytest.fixture
def trace():
    model = ScriptedModel([Reply(" It is Bonn. Then", {"Bonn": 0.2}), Reply(" So the answer is Köln 😀. x")])
    method = make_method("flare", {"search_first": "no"})
    question = Question("q", "Where?")
    return asyncio.run(ask(question, method, {"answer": model}, ScriptedRetriever([PASSAGE]))).trace


@pytest.fixture
def path(trace, tmp_path):
    write_file(tmp_path / "trace.jsonl", trace_text(trace))
    return tmp_path / "trace.jsonl"


def test_every_event_comes_back_whatever_its_characters(trace, path):
    shares = {"relevance": {"[Relevant]": 0.75, "[Irrelevant]": 0.25}}
    trace.expand("0.2", "retrieve", "The Rhine.", passage=Hit(PASSAGE, 0.5, 2), distributions=shares)
    trace.expand("0.3", "none", "", numbers={"score": 1.5}, rejected="it is empty")
    trace.commit("a\u2028b\u0085c\rd\x0b")
    write_file(path, trace_text(trace))
    assert read_trace(path) == tuple(trace.events)
    header = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    assert header["schema"] == SCHEMA_VERSION
    assert [child.name for child in path.parent.iterdir()] == ["trace.jsonl"], "the old file was replaced"
    trace.commit("\udcff")
    write_file(path, trace_text(trace))
    assert len(read_trace(path)) == len(trace.events), "half a character does not stop the writing"


def test_nowhere_to_write(trace, tmp_path):
    with pytest.raises(InputError, match="can't write"):
        write_file(tmp_path / "absent" / "trace.jsonl", trace_text(trace))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda lines: [], "is not a trace"),
        (lambda lines: lines[1:], "is not a trace"),
        (lambda lines: [lines[0].replace(b'"schema": 1', b'"schema": 99'), *lines[1:]], "schema 99"),
        (lambda lines: [*lines[:3], lines[3][:20]], "line 4: not JSON"),
        (lambda lines: [lines[0], b"[1]"], "line 2: not JSON"),
        (lambda lines: [lines[0], b'{"type": "dance"}'], "line 2: unknown event type 'dance'"),
        (lambda lines: [lines[0], lines[1].replace(b'"seed": 0', b'"seed": "x"')], "line 2, field seed"),
    ],
)
def test_damage_is_named_by_line(path, change, expected):
    lines = [unsealed(line) for line in path.read_bytes().splitlines()]
    path.write_bytes(b"\n".join(map(sealed, change(lines))))
    with pytest.raises(TraceFileError) as error:
        read_trace(path)
    assert expected in str(error.value)


def test_a_wrong_bit_or_a_lost_checksum_is_named_by_line(path):
    whole, chosen = path.read_bytes(), random.Random(4)
    for at in range(0, len(whole), 29):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(TraceFileError) as caught:
            read_trace(path)
        line = 1 + whole[:at].count(b"\n")
        named = ("is not a trace", "is not UTF-8", f"{path}, line {line}: ")
        assert any(each in str(caught.value) for each in named)
    header, first, *rest = whole.splitlines()
    path.write_bytes(b"\n".join([header, unsealed(first), *rest]))
    with pytest.raises(TraceFileError, match="line 2: it does not begin with a checksum"):
        read_trace(path)


def test_missing_or_binary(tmp_path):
    with pytest.raises(TraceFileError, match=r"can't read .*none\.jsonl: No such file or directory\. Check"):
        read_trace(tmp_path / "none.jsonl")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceFileError, match="not UTF-8"):
        read_trace(tmp_path / "binary")
