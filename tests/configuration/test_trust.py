"""Files that somebody else may have written run no code, and code that declares nothing is never called."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from askance.configuration.build import (
    encoder_to_build_with,
    load_encoder,
    load_model,
    load_reranker,
    open_retriever,
)
from askance.configuration.methods import make_method
from askance.configuration.sources import read_config
from askance.core.errors import BadIndex, ConfigError, InputError, PresetError, UnknownName
from askance.core.trace import Asked, Trace
from askance.models.bundled import bundled_adapter
from askance.retrieval.index.build import build_index
from askance.storage.durable_files import sealed
from askance.storage.trace_file import trace_text, write_file
from tests.serve.served import serving

ATTACK = "subprocess:Popen?args=touch {}&shell=1"
REFUSED = "names code that is not part of askance, and a file that others may have written can't make it run"


@pytest.fixture
def canary(tmp_path):
    """A file that no test may find, since only code named in data would write it."""
    yield tmp_path / "canary"
    assert not (tmp_path / "canary").exists()


@pytest.fixture
def attack(canary):
    return ATTACK.format(canary)


@pytest.fixture
def payload(tmp_path, monkeypatch, canary):
    """A module in the working folder that writes the canary when it is imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "payload", raising=False)
    (tmp_path / "payload.py").write_text(f"from pathlib import Path\nPath({str(canary)!r}).write_text('')\n")
    return "payload:Anything"


def refused(run, *words, told=REFUSED):
    code, out, error = run(*words, columns=1000)
    assert (code, out) == (2, "")
    assert told in error


VALUES = [
    *((key, "{}") for key in "model encoder method retriever rerank prompts set.prompts".split()),
    ("set.linguistics", "spacy:payload"),
    ("set.trigger", "{}"),
    ("set.query", "{}"),
    ("set.single.guard", "{}"),
    ("set.single.linguistics", "spacy:payload"),
    ("model", "langchain:payload:model"),
    ("retriever", "langchain:payload:model"),
    ("rerank", "model:{}"),
]


@pytest.mark.parametrize(("key", "value"), VALUES)
def test_settings_in_data_name_no_code(payload, tmp_path, key, value):
    name, _, entry = {"model": "models.answer"}.get(key, key.replace("set.", "parameters.")).partition(".")
    value = value.format(payload)
    config, trace = {"schema": 1, name: {entry: value} if entry else value}, Trace()
    none = dict.fromkeys(("method", "title", "retriever", "started_at"), "")
    trace.add(Asked, question_id="q", text="Who?", models={}, seed=0, config=config, **none)
    write_file(tmp_path / "trace.jsonl", trace_text(trace))
    (tmp_path / "settings.json").write_bytes(sealed(json.dumps({"config": config}).encode()))
    (tmp_path / "askance.toml").write_text(f'{key} = "{value}"\n')
    for file in (None, tmp_path / "trace.jsonl", tmp_path / "settings.json"):
        with pytest.raises(ConfigError, match=REFUSED) as error:
            read_config({}, file=file)
        assert "--trust-config" in str(error.value)
        assert str(file or "askance.toml") in str(error.value)


def test_trusted_and_stronger_settings_name_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "askance.toml").write_text('model = "mine:Model"\n')
    assert read_config({"model": "scripted"}).config.answer_spec == "scripted"
    assert read_config(trust=True).config.answer_spec == "mine:Model"
    assert read_config(file=Path("askance.toml")).config.answer_spec == "mine:Model"
    monkeypatch.setenv("ASKANCE_MODEL", "mine:Other")
    assert read_config().config.answer_spec == "mine:Other"


@pytest.mark.parametrize("command", [("ask", "Who?"), ("chat",), ("serve", "--port", 0), ("mcp",)])
def test_commands_refuse_an_askance_toml_with_code(run, attack, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "askance.toml").write_text(f'model = "{attack}"\n')
    refused(run, *command)
    # Trusted, it is still no model, and nothing calls it.
    trusted = ("ask", "Who?", "--trust-config", "--method", "closed_book")
    refused(run, *trusted, told="does not declare itself a model")


HOSTILE = [
    *("{}", "{}?a=1", "{}:place", "langchain:{}", "model:{}", "model:langchain:{}", "{}()", "{}(a=1)", " {}"),
    *("{}\n", "\u200b{}", "\0{}", "\uff50ayload:Anything", "p\uff41yload:Anything", "PAYLOAD:Anything"),
    *("payload.Anything", "../{}", "./payload.py:Anything", "gguf:payload.py", "scripted:payload.py"),
    *(
        "blender(a={}())",
        "blender(a=single(linguistics=spacy:payload))",
        "single(prompts={})",
        "spacy:payload",
    ),
    *(["{}"], {"object": "{}"}, {"name": "{}"}, [["{}"]], "", None, True, 7, -1e308),
]
"""Values that should be the name of a part, with the module of `payload` for {}."""
FIELDS = dict.fromkeys(("encoder", "method", "retriever", "rerank", "prompts"), "") | {
    "models": "answer",
    "parameters": "linguistics",
}
"""The settings that name parts, each with its entry."""


def in_manifest(folder, value):
    index = folder / "index"
    manifest = json.loads((index / "manifest.json").read_text())
    manifest["encoder"]["name"] = value
    (index / "manifest.json").write_text(json.dumps(manifest))
    yield "search", "Rhine", "--index", index, "--retriever", "hybrid"
    yield "index", folder / "documents.txt", "--out", index


def in_configuration(folder, value):
    """In the configuration of a run folder, whose checksum is right, and of a trace."""
    (folder / "run").mkdir()
    for field, entry in FIELDS.items():
        config, trace = {"schema": 1, field: {entry: value} if entry else value}, Trace()
        (folder / "run" / "settings.json").write_bytes(sealed(json.dumps({"config": config}).encode()))
        yield "ask", "Rhine?", "--config", folder / "run"
        none = dict.fromkeys(("method", "title", "retriever", "started_at"), "")
        trace.add(Asked, question_id="q", text="Who?", models={}, seed=0, config=config, **none)
        write_file(folder / "trace.jsonl", trace_text(trace))
        yield "ask", "Rhine?", "--config", folder / "trace.jsonl"


def in_toml(folder, value):
    """In an askance.toml of the working folder, and in a preset."""
    if isinstance(value, str | list):
        for field in FIELDS:
            key = {"models": "model", "parameters": "set.linguistics"}.get(field, field)
            (folder / "askance.toml").write_text(f"{key} = {json.dumps(value)}\n")
            yield "ask", "Rhine?"
        (folder / "askance.toml").unlink()
        (folder / "preset.toml").write_text(f"[flare]\nlinguistics = {json.dumps(value)}\n")
        yield "ask", "Rhine?", "--method", "flare", "--preset", "preset.toml", "--index", folder / "index"


def in_note(folder, value):
    reader = shutil.copytree(bundled_adapter(""), folder / "reader")
    note = json.loads((reader / "reader.json").read_text()) | {"prompts": value}
    (reader / "reader.json").write_text(json.dumps(note))
    yield "ask", "Rhine?", "--model", f"bundled:base?adapter={reader}", "--method", "single"


@pytest.fixture
def index(tmp_path, attack):
    """An index whose manifest names a command as its encoder."""
    documents = tmp_path / "documents.txt"
    documents.write_text("The Rhine flows through Bonn.")
    folder = tmp_path / "index"
    build_index([documents], folder, encoder=load_encoder("scripted"))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["encoder"]["name"] = attack
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
@pytest.mark.parametrize("place", [in_manifest, in_configuration, in_toml, in_note])
def test_no_place_in_data_runs_code_by_any_value(run, payload, index, tmp_path, place, value):
    for words in place(tmp_path, json.loads(json.dumps(value).replace("{}", payload))):
        code, out, error = run(*words)
        assert (code, out) == (2, ""), words
        assert "error: " in error, words


def test_the_manifest_of_an_index_names_no_code(run, index, attack, tmp_path):
    for retriever in ("dense", "hybrid"):
        refused(run, "search", "Rhine", "--index", index, "--retriever", retriever)
        words = ("--index", index, "--retriever", retriever, "--model", "scripted", "--method", "single")
        refused(run, "ask", "Rhine?", *words)
    refused(run, "search", "Rhine", "--index", index)
    refused(run, "index", tmp_path / "documents.txt", "--out", index)
    with pytest.raises(BadIndex, match="type --encoder to use it"):
        encoder_to_build_with(index, None)


def test_a_server_that_adds_documents_runs_no_code_of_the_index(index):
    with serving(index=index, retriever="bm25", method="closed_book") as server:
        document = {"documents": [{"id": "a", "text": "The Tiber flows through Rome."}]}
        response = server.client.post("/v1/documents", json=document)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "index_failed")


def test_the_note_of_a_reader_names_no_prompts_but_those_of_askance(payload, tmp_path):
    folder = shutil.copytree(bundled_adapter(""), tmp_path / "reader")
    note = json.loads((folder / "reader.json").read_text()) | {"prompts": payload}
    (folder / "reader.json").write_text(json.dumps(note))
    with pytest.raises(UnknownName, match=r"unknown prompt set 'payload:Anything' of the note .*reader"):
        make_method("single", model=f"bundled:base?adapter={folder}")


def test_a_preset_names_no_code(tmp_path):
    preset = tmp_path / "preset.toml"
    for entry in ('linguistics = "spacy:payload"', 'trigger = "payload:Anything"'):
        preset.write_text(f"[dragin]\n{entry}\n")
        with pytest.raises(PresetError, match=REFUSED):
            make_method("dragin", preset=preset)


def test_questions_name_no_code(run, payload, tmp_path):
    row = {"question": "Who?", "golds": ["Ann"]} | dict.fromkeys(("prompts", "model", "method"), payload)
    (tmp_path / "q.jsonl").write_text(json.dumps(row) + "\n")
    assert run("eval --dataset jsonl:q.jsonl --model scripted --method closed_book --out r")[0] in (0, 2)


@pytest.mark.parametrize(
    "use",
    [
        load_model,
        load_encoder,
        load_reranker,
        lambda spec: open_retriever(None, spec),
        lambda spec: make_method(spec.partition("?")[0]),
    ],
)
def test_a_class_that_declares_nothing_is_not_called(attack, use):
    with pytest.raises(InputError, match=r"subprocess:Popen.* does not declare itself a .*implements"):
        use(attack)


def test_the_interpreter_runs_the_attack_if_nothing_stops_it(tmp_path):
    """The other tests prove something only if this command would have written the canary."""
    subprocess.Popen(args=f"touch {tmp_path / 'written'}", shell="1").wait()
    assert (tmp_path / "written").exists()
