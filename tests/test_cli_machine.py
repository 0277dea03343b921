"""Commands where nothing can be written, or where memory runs out: one clear line, exit code 1."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

FULL = Path("/dev/full")
LITTLE_MEMORY = 400 << 20
"""Bytes of addresses: enough for the command line, and less than the libraries of torch take."""
ASK = ("ask", "Where?", "--method", "closed_book", "--model", "scripted")


def askance(*words, before=None, **streams):
    command = [sys.executable, "-m", "askance.cli.main", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run(command, text=True, env=environment, preexec_fn=before, check=False, **piped)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "words",
    [ASK, (*ASK, "--json"), ("methods",), ("prompts", "own"), ("--version",), ("--help",)],
    ids=" ".join,
)
def test_an_output_that_is_full(words):
    with FULL.open("w") as full:
        done = askance(*words, stdout=full)
    assert done.returncode == 1
    assert done.stderr == (
        "error: can't write the output: No space left on device. Free some space, or write elsewhere.\n"
    )


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_an_output_that_is_full_loses_no_trace(tmp_path):
    with FULL.open("w") as full:
        assert askance(*ASK, "--trace", tmp_path / "trace.jsonl", stdout=full, stderr=full).returncode == 1
    assert askance("trace", tmp_path / "trace.jsonl").returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["trace.jsonl"]


@pytest.mark.parametrize(
    ("closed", "words", "code"),
    [(0, ("ask", "-", *ASK[2:]), 2), (1, ASK, 0), (1, ("--version",), 0), (2, ("ask", "", *ASK[2:]), 2)],
    ids=str,
)
def test_a_standard_stream_that_is_closed(closed, words, code):
    done = askance(*words, before=partial(os.close, closed))
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_a_device_is_not_replaced_by_a_file(run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    code, _, err = run(*ASK, "--trace", tmp_path / "pipe")
    assert code == 2
    assert "it is a device or a pipe. Name a file." in " ".join(err.split())
    assert (tmp_path / "pipe").is_fifo()


def test_memory_that_runs_out_is_called_so(llama_folder):
    resource = pytest.importorskip("resource")
    limit = partial(resource.setrlimit, resource.RLIMIT_AS, (LITTLE_MEMORY, LITTLE_MEMORY))
    done = askance(*ASK[:-1], f"hf:{llama_folder}", before=limit)
    assert done.returncode == 1
    loading, told = done.stderr.splitlines()[:2]
    assert loading == f"loading the model hf:{llama_folder}"
    assert told.startswith("error: there is not enough memory")
    assert done.stderr.count("\n") == 2


def out_of_memory(*args, **kwargs):
    raise RuntimeError("unable to mmap 9 bytes from file <x>: Cannot allocate memory (12)")


def test_a_model_beyond_the_memory_has_no_damaged_files(run, llama_folder, monkeypatch):
    from transformers import AutoModelForCausalLM

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", out_of_memory)
    code, _, err = run(*ASK[:-1], f"hf:{llama_folder}")
    assert code == 1
    assert f"there is not enough memory for model '{llama_folder}' (unable to mmap 9 bytes" in err
    assert "damaged" not in err


def test_memory_that_runs_out_in_a_question(run, monkeypatch):
    from askance.models.scripted import ScriptedModel

    def reply(self, shown, key):
        raise MemoryError

    monkeypatch.setattr(ScriptedModel, "_reply", reply)
    code, _, err = run(*ASK)
    assert code == 1
    assert "error: there is not enough memory (MemoryError): use a smaller model" in err
