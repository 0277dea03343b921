import asyncio
import json
import random

import pytest

from askance.ask import ask
from askance.configuration.methods import make_method
from askance.core.errors import InputError, TraceFileError
from askance.core.trace import SCHEMA_VERSION, Trace
from askance.core.types import Hit, Passage, Question
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.storage.durable_files import sealed, unsealed
from askance.storage.trace_file import read_trace, trace_text, write_file


@pytest.fixture
def trace():
    model = ScriptedModel([Reply(" It is Bonn. Then", {"Bonn": 0.2}), Reply(" So the answer is Köln 😀. x")])
    retriever = ScriptedRetriever([Passage("a", "Köln", "Köln lies on the Rhine.", "a.txt", 0, 23)])
    method = make_method("flare", {"search_first": "no"})
    return asyncio.run(ask(Question("q", "Where?"), method, {"answer": model}, retriever)).trace


def test_round_trip(trace, tmp_path):
    path = tmp_path / "trace.jsonl"
    write_file(path, trace_text(trace))
    assert read_trace(path) == tuple(trace.events)
    header = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    assert header["schema"] == SCHEMA_VERSION
    assert [child.name for child in tmp_path.iterdir()] == ["trace.jsonl"]


def test_steps_of_a_search_keep_their_passage_and_their_numbers(tmp_path):
    trace = Trace()
    hit = Hit(Passage("a", "Köln", "Köln lies on the Rhine.", "a.txt", 0, 23), 0.5, 2)
    shares = {"relevance": {"[Relevant]": 0.75, "[Irrelevant]": 0.25}}
    trace.expand("0.2", "retrieve", "The Rhine.", passage=hit, numbers={"score": 1.5}, distributions=shares)
    trace.expand("0.3", "none", "", rejected="it is empty")
    write_file(tmp_path / "t.jsonl", trace_text(trace))
    assert read_trace(tmp_path / "t.jsonl") == tuple(trace.events)


def test_every_line_break_of_unicode_survives(trace, tmp_path):
    trace.commit("a\u2028b\u0085c\rd\x0b")
    write_file(tmp_path / "t.jsonl", trace_text(trace))
    assert read_trace(tmp_path / "t.jsonl") == tuple(trace.events)


def test_half_a_character_does_not_stop_the_writing(trace, tmp_path):
    trace.commit("\udcff")
    write_file(tmp_path / "t.jsonl", trace_text(trace))
    assert len(read_trace(tmp_path / "t.jsonl")) == len(trace.events)


def test_an_old_file_is_replaced_whole(trace, tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text("old\n" * 1000)
    write_file(path, trace_text(trace))
    assert read_trace(path) == tuple(trace.events)


def test_nowhere_to_write(trace, tmp_path):
    with pytest.raises(InputError, match="can't write"):
        write_file(tmp_path / "absent" / "trace.jsonl", trace_text(trace))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda lines: [], "is not a trace"),
        (lambda lines: lines[1:], "is not a trace"),
        (lambda lines: [lines[0].replace('"schema": 1', '"schema": 99'), *lines[1:]], "schema 99"),
        (lambda lines: [*lines[:3], lines[3][:20]], "line 4: not JSON"),
        (lambda lines: [lines[0], "[1]"], "line 2: not JSON"),
        (lambda lines: [lines[0], '{"type": "dance"}'], "line 2: unknown event type 'dance'"),
        (lambda lines: [lines[0], lines[1].replace('"seed": 0', '"seed": "x"')], "line 2, field seed"),
    ],
)
def test_damage_is_named_by_line(trace, tmp_path, change, expected):
    path = tmp_path / "trace.jsonl"
    write_file(path, trace_text(trace))
    lines = [unsealed(line).decode() for line in path.read_bytes().splitlines()]
    path.write_bytes(b"\n".join(sealed(line.encode()) for line in change(lines)))
    with pytest.raises(TraceFileError) as error:
        read_trace(path)
    assert expected in str(error.value)


def test_a_line_without_a_checksum_is_named(trace, tmp_path):
    path = tmp_path / "trace.jsonl"
    write_file(path, trace_text(trace))
    header, first, *rest = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([header, unsealed(first), *rest]))
    with pytest.raises(TraceFileError, match="line 2: it does not begin with a checksum"):
        read_trace(path)


def test_one_wrong_bit_is_named_by_line(tmp_path):
    trace, path, chosen = Trace(), tmp_path / "trace.jsonl", random.Random(4)
    trace.decide("retrieve", "keep", "Köln is certain")
    trace.commit("Köln")
    write_file(path, trace_text(trace))
    whole = path.read_bytes()
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(TraceFileError) as caught:
            read_trace(path)
        line = 1 + whole[:at].count(b"\n")
        named = ("is not a trace", "is not UTF-8", f"{path}, line {line}: ")
        assert any(each in str(caught.value) for each in named)


def test_missing_or_binary(tmp_path):
    with pytest.raises(TraceFileError, match=r"can't read .*none\.jsonl: No such file or directory\. Check"):
        read_trace(tmp_path / "none.jsonl")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceFileError, match="not UTF-8"):
        read_trace(tmp_path / "binary")
