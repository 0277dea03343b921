"""The note on a faster engine for a model that torch computes on a CPU because there is no GPU."""

import json
import re

import pytest

pytest.importorskip("torch")

import torch
from tests.models.tiny import save_tiny_gguf

from askance.core.notes import noted
from askance.models.hf import adapter, load_hf

ASK = ("ask", "The cat?", "--method", "closed_book", "--set", "max_tokens=2", "--prompts", "plain")


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


class Placed:
    def __init__(self, place):
        self.device = torch.device(place)


@pytest.fixture
def told(monkeypatch):
    """Return a function that loads a model by name and options on a device, and returns the notes."""

    def told(name, options=None, place="cpu"):
        for loader in ("load_hf", "load_adapted"):
            monkeypatch.setattr(adapter, loader, lambda *_, **__: Placed(place))
        notes = []
        with noted(lambda kind, text: notes.append((kind, text))):
            adapter.load_hf_model(name, **options or {})
        return notes

    return told


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("some/model.gguf", "use gguf:some/model.gguf, or"),
        ("owner/name", "Model 'hf:owner/name' .*use gguf:FILE with a GGUF file of the same model, or"),
    ],
)
def test_a_gguf_file_is_recommended_on_a_cpu(told, name, expected):
    ((kind, text),) = told(name)
    assert kind == "quicker"
    assert re.search(expected, text)


@pytest.mark.parametrize(
    ("place", "options"), [("cuda", {}), ("cuda", {"device": "auto"}), ("cpu", {"device": "cpu"})]
)
def test_nothing_is_said_on_a_gpu_or_where_the_cpu_was_asked_for(told, place, options):
    assert told("owner/name", options, place) == []


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_screen_says_it_once_and_beside_the_answer(run, tmp_path, monkeypatch, is_installed):
    monkeypatch.setattr(adapter, "find_spec", lambda package: is_installed)
    file, trace = save_tiny_gguf(tmp_path / "tiny.gguf"), tmp_path / "trace.jsonl"
    code, out, err = run(*ASK, "--model", f"hf:{file}", "--trace", trace, "--json")
    assert code == 0, err
    json.loads(out)
    shown = " ".join(err.split())
    assert shown.count(f"use gguf:{file}") == 1
    assert ("pip install" in shown) == (not is_installed)
    assert "quicker" not in trace.read_text()


def test_a_program_that_loads_a_model_reads_nothing(llama_folder, capfd, recwarn):
    load_hf(str(llama_folder))
    adapter.load_hf_model(str(llama_folder))
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
