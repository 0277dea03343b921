"""Every parser of bytes from outside ends in a value or in its documented error, whatever the bytes are."""

import asyncio
import gzip
import io
import json
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from askance.configuration.evaluation import read_dataset
from askance.configuration.grid import read_grid
from askance.configuration.methods import make_method
from askance.configuration.prompts import open_prompts, prompts_toml, to_toml
from askance.configuration.sources import read_config
from askance.core import records
from askance.core.errors import (
    BadIndex,
    DatasetError,
    InputError,
    ModelSpecError,
    RunFolderError,
    TraceFileError,
)
from askance.core.spec import parse_method, parse_spec
from askance.core.trace import Asked, Trace
from askance.evaluation.choose.outcomes import read_outcomes
from askance.evaluation.run.recorded_run import read_run
from askance.models.local.model_files import read_added_tokens, read_note
from askance.retrieval.bm25 import open_index
from askance.retrieval.filters import parse_filter
from askance.retrieval.index.build import build_index
from askance.retrieval.index.index_folder import read_manifest
from askance.storage.durable_files import checksum, sealed
from askance.storage.trace_file import parse_trace, read_trace, trace_text
from askance.terminal.trace_view import print_trace
from askance.viewer.page import standalone_page
from tests.evaluation.hand_made import record, written
from tests.hostile import DEEP, mutants

ROW = {
    "question": "Which river?",
    "answers": ["Rhine", "the Rhine"],
    "id": "q1",
    "hops": 2,
    "paragraphs": [{"title": "Bonn", "text": "It lies on the Rhine.", "evidence": ["It lies"]}],
    "steps": [{"question": "x?", "answer": "y"}],
    "triples": [["a", "b", "c"]],
}
OUTCOME = {
    "id": 7, "question": "Which river?", "gold": ["Rhine"], "one": "Rhine", "ircot": {"answer": "Rhine"},
    "none": {"answer": "Elbe", "tokens": 9, "samples": ["Elbe"],
             "draft": {"texts": ["El", "be"], "logprobs": [-1, -2], "best": [-1, -2], "second": [-3, -3]}},
    "scores": [3.5, 2], "router": [0.2, 0.7, 0.1], "signals": {"doubt": 2}, "model": "m",
}  # fmt: skip
CHOICE = {"question": "A or B?", "options": ["A: x", "B: y"], "answers": ["A: x"], "id": 7}
JSON_LINES = "\n".join(map(json.dumps, (ROW, CHOICE))).encode()
CSV = b'question,answers,id,hops\n"Which, ""one""?",Rhine | the Rhine,1,2\n"a\nb?","[""x"", ""y""]",2,\n'
TSV = b'question\tanswers\tid\nWhich, one?\tRhine | the Rhine\t1\n"a\nb?"\tx\t2\n'
TOML = b"""
schema = 1
method = "flare"
model = "scripted"
seed = 3
[set]
passages = 4
[budget]
tokens = 9
"""
GRID = b"""
seed = 7
[datasets.all]
questions = "sample"
[models.fake]
answer = "scripted"
[methods.flare]
set = { passages = 2 }
"""
PRESET = b'about = "x"\n[flare]\nsearch_below = 0.4\npassages = 3\n'
METHOD = b'blender(a=dragin(threshold=0.4, trigger=rind), b=single(prompts="plain", passages=5), l_max=900)'
FILTER = b"not (year in (1, 'x', true) or `is b` != 1.5e3) and date < \"2020\""


def dataset(name, file):
    def parse(raw, folder):
        (folder / file).write_bytes(raw)
        read_dataset(f"{name}:{folder / file}")

    return parse


def outcomes(raw, folder):
    (folder / "outcomes.jsonl").write_bytes(raw)
    read_outcomes(folder / "outcomes.jsonl")


def trace(raw, folder):
    """Read, print and draw a trace whose second event has these bytes, under a right checksum."""
    (folder / "t.jsonl").write_bytes(trace_lines()[0] + b"\n" + sealed(raw) + b"\n")
    events = read_trace(folder / "t.jsonl")
    print_trace(events, Console(file=io.StringIO(), width=80))
    standalone_page([events])
    text = trace_text(SimpleNamespace(events=events))
    assert trace_text(SimpleNamespace(events=parse_trace(text, "text"))) == text


def trace_lines():
    asked, none = Trace(), dict.fromkeys(("method", "title", "retriever", "started_at"), "")
    asked.add(Asked, question_id="q", text="Who?", models={}, seed=0, config={"schema": 1, "seed": 3}, **none)
    return trace_text(asked).encode().splitlines()


QUESTION = b"{" + trace_lines()[1].partition(b", ")[2]


def of_run(raw, folder):
    """Read a run whose settings have these bytes, under a right checksum."""
    (folder / "run" / "settings.json").write_bytes(sealed(raw))
    read_run(folder / "run")


def toml(read):
    def parse(raw, folder):
        (folder / "file.toml").write_bytes(raw)
        read(folder / "file.toml")

    return parse


def prompts(path):
    path.write_text(to_toml(template := open_prompts(path)), encoding="utf-8")
    assert open_prompts(path) == template


def stored(raw, folder):
    (folder / "settings.json").write_bytes(sealed(raw))
    read_config({}, file=folder / "settings.json")


def text(parse):
    """Parse a text, print the value, and read the value from what was printed."""

    def parse_text(raw, folder):
        value = parse(raw.decode("utf-8", "surrogateescape"))
        assert parse(str(value)) == value

    return parse_text


def method(raw, folder):
    made = make_method(parse_method(raw.decode("utf-8", "surrogateescape")))
    assert make_method(repr(made)) == made


def note(raw, folder):
    (folder / "reader.json").write_bytes(raw)
    read_note(folder)


def added_tokens(raw, folder):
    """Read the control tokens of an adapter from its two files, which are parted by a line break."""
    config, _, tokens = raw.partition(b"\n")
    (folder / "adapter_config.json").write_bytes(config)
    (folder / "added_tokens.json").write_bytes(tokens)
    ids = [*read_added_tokens(folder).values()]
    assert not ids or ids == [*range(ids[0], ids[-1] + 1)]


def manifest(raw, folder):
    """Search an index with this manifest, and list its documents."""
    (folder / "index" / "manifest.json").write_bytes(raw)
    assert asyncio.run(open_index(folder / "index").search("Rhine", 3))
    str(read_manifest(folder / "index"))


NOTE = {"format": 1, "base": "bundled:base", "base_fingerprint": "0" * 32, "chat_template_digest": "d" * 32}
NOTE |= {"method": "lora", "prompts": "plain"}
ADDED = b'{"trainable_token_indices": {"embed_tokens": [7, 8]}}\n{"<a>": 8, "<b>": 7}'
PARSERS = {
    "jsonl": (dataset("jsonl", "a.jsonl"), JSON_LINES, DatasetError),
    "gzip": (dataset("jsonl", "a.jsonl.gz"), gzip.compress(JSON_LINES, mtime=0), DatasetError),
    "csv": (dataset("csv", "a.csv"), CSV, DatasetError),
    "tsv": (dataset("csv", "a.tsv"), TSV, DatasetError),
    "outcomes": (outcomes, json.dumps(OUTCOME).encode(), DatasetError),
    "trace": (trace, QUESTION, TraceFileError),
    "run": (of_run, b"{}", RunFolderError),
    "stored settings": (stored, b'{"config": {"schema": 1, "seed": 3, "abstain_below": 0.5}}', InputError),
    "askance.toml": (toml(lambda path: read_config({}, file=path)), TOML, InputError),
    "grid": (toml(lambda path: read_grid(path).experiments()), GRID, InputError),
    "preset": (toml(lambda path: make_method("flare", preset=path)), PRESET, InputError),
    "prompts": (toml(prompts), prompts_toml("plain").encode(), InputError),
    "filter": (text(parse_filter), FILTER, InputError),
    "specification": (text(parse_spec), b"openai:gpt@http://h:1/v1?server=vllm&top_k=1", InputError),
    "specification with a limit": (text(parse_spec), b"popqa:FILE?popularity<100&split=dev", InputError),
    "form of a method": (text(parse_method), METHOD, InputError),
    "method": (method, METHOD, InputError),
    "note of a reader": (note, json.dumps(NOTE).encode(), ModelSpecError),
    "added tokens": (added_tokens, ADDED, ModelSpecError),
    "manifest": (manifest, b"", BadIndex),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parsers")
    written(folder / "run", [record(1)])
    settings_of_run = (folder / "run" / "settings.json").read_bytes()
    PARSERS["run"] = (of_run, b"{" + settings_of_run.partition(b", ")[2], RunFolderError)
    (folder / "bonn.txt").write_text("Bonn lies on the Rhine.")
    build_index([folder / "bonn.txt"], folder / "index")
    PARSERS["manifest"] = (manifest, (folder / "index" / "manifest.json").read_bytes(), BadIndex)
    return folder


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes_are_read_or_refused(folder, name, data):
    parse, valid, error = PARSERS[name]
    parse(valid, folder)
    with suppress(error):
        parse(data.draw(mutants(valid)), folder)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("gzip", gzip.compress(JSON_LINES * 9, mtime=0)[:60]),
        ("gzip", gzip.compress(JSON_LINES, mtime=0)[:20] + b"\xff" * 40),
        ("csv", b"question,answers,hops\na,b," + b"9" * 5000),
        ("csv", b"question,answers\na," + b"x" * 16_000_001 + b"\nc,d\n"),
        ("jsonl", b'{"question": "a?", "answers": ' + DEEP + b"}"),
        ("note of a reader", DEEP),
        ("added tokens", ADDED.replace(b"8", b"1e999")),
        ("added tokens", ADDED.replace(b"{", DEEP, 1)),
        ("manifest", DEEP),
        ("manifest", b'{"format": "askance-index", "schema_version": 1e999}'),
        ("trace", QUESTION.replace(b'"question",', b'["question"],', 1)),
        ("trace", QUESTION.replace(b'"models": {}', b'"models": ' + DEEP)),
        ("run", b'{"metrics": ' + DEEP + b"}"),
        ("stored settings", b'{"config": 0.5}'),
        ("stored settings", b'{"config": ["schema"]}'),
        ("stored settings", b'{"config": ' + DEEP + b"}"),
        ("stored settings", b'{"config": {"schema": 1, "abstain_below": 1' + b"0" * 400 + b"}}"),
    ],
)
def test_bytes_that_no_parser_expects_are_refused(folder, name, raw):
    parse, _, error = PARSERS[name]
    with pytest.raises(error):
        parse(raw, folder)


def test_a_line_too_long_for_a_cell_spoils_no_other_row(monkeypatch):
    monkeypatch.setattr(records, "MAX_ROW_CHARACTERS", 100)
    rows = [*records.csv_rows(["a,b\n", "c," + "x" * 101 + "\n", "e,f\n"], ",")]
    assert [(line, bool(flaw)) for line, _, flaw in rows] == [(1, False), (2, True), (3, False)]
    assert rows[2][1] == ["e", "f"]


def test_a_trace_that_was_packed_wrongly_is_refused(tmp_path):
    run = written(tmp_path / "run", [record(1)])
    for member in (b"no gzip", gzip.compress(b"\xff"), gzip.compress(b"x" * 99)[:20]):
        (tmp_path / "run" / "traces.jsonl.gz").write_bytes(member)
        forged = replace(run.records[0], trace_at=0, trace_bytes=len(member), trace_checksum=checksum(member))
        with pytest.raises(RunFolderError, match="can't be unpacked"):
            run.trace(forged)


def test_values_of_parquet_that_python_lacks_are_refused(tmp_path):
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    for values, kind in (
        ([2**62], pyarrow.timestamp("us")),
        ([2**30], pyarrow.date32()),
        ([1], pyarrow.timestamp("s", tz="Nowhere/None")),
    ):
        table = {"question": ["Who?"], "answers": [["x"]], "more": pyarrow.array(values, kind)}
        parquet.write_table(pyarrow.table(table), tmp_path / "a.parquet")
        with pytest.raises(DatasetError, match="can't read"):
            read_dataset(f"jsonl:{tmp_path / 'a.parquet'}")
