"""`askance train reader` as a user types it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from askance_lab.training.loop.trainer import Trainer

SOURCES = str(Path(__file__).parent.parent / "src")
TINY = ["--set", "rank=4", "--set", "max_tokens=400", "--set", "rows_per_step=2"]


def row(number, animal, colour, **changed):
    text = f"The {animal} was {colour}."
    paragraphs = [
        {"title": animal, "text": text, "evidence": [text]},
        {"title": "city", "text": "One city was born."},
    ]
    fields = {"id": f"q{number}", "question": f"The {animal}?", "answers": [colour], "paragraphs": paragraphs}
    return fields | changed


PAIRS = ["cat red", "dog blue", "boat green", "ball six", "bank one", "river two"]
ROWS = [row(number, *pair.split()) for number, pair in enumerate(PAIRS)]


@pytest.fixture(autouse=True)
def one_thread():
    """On a busy machine, the threads of a tiny model wait for each other most of the time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def written(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return f"jsonl:{path}"


@pytest.fixture
def dataset(tmp_path):
    return written(tmp_path / "rows.jsonl", ROWS)


def left(tmp_path):
    """What stands beside the rows."""
    return sorted(path.name for path in tmp_path.iterdir() if path.name != "rows.jsonl")


def test_the_whole_way(run, dataset, qwen_folder, tmp_path):
    out = tmp_path / "reader"
    words = ["train", "reader", "--dataset", dataset, "--model", f"hf:{qwen_folder}", *TINY, "--out", out]
    code, shown, told = run(*words)
    assert code == 0, told
    told, shown = " ".join(told.split()), " ".join(shown.split())
    assert "dataset questions training examples of which jsonl 6 " in told
    assert "tokens to compute, " in told
    assert "what they share is computed once" in told
    assert f"the reader is in {out}, its card in {out}/README.md" in shown
    assert f"use it: --model hf:{out}" in shown
    assert left(tmp_path) == ["reader"]
    code, answer, told = run(
        "ask", "The cat?", "--model", f"hf:{out}", "--method", "closed_book", "--prompts", "plain", "--json"
    )
    assert code == 0, told
    assert json.loads(answer)["usage"]
    code, _, told = run(*words)
    assert (code, left(tmp_path)) == (2, ["reader"])
    assert "is there already" in told


def test_a_dry_run_tells_what_is_learned_and_what_is_left_out(run, dataset, qwen_folder, tmp_path):
    long = row(8, "ball", "red", question="The " + "ball " * 400)
    more = written(tmp_path / "more.jsonl", [*ROWS[:4], row(7, "ball", "red", paragraphs=[]), long])
    words = ["--dataset", dataset, "--dataset", more, "--model", f"hf:{qwen_folder}", *TINY]
    code, shown, told = run("train", "reader", *words, "--out", tmp_path / "reader", "--dry-run")
    assert (code, told) == (0, "")
    shown = " ".join(shown.split())
    for expected in (
        "jsonl 6 ",
        "jsonl:2 6 ",
        "left out: 1 of jsonl:2: no supporting paragraphs, facts or steps",
        "longer than max_tokens=400 or the model's own window",
        "computed in float32",
        " steps; ",
    ):
        assert expected in shown
    assert left(tmp_path) == ["more.jsonl"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--set", "rank=0"], "parameter rank=0 of askance train reader: expected 1 or more"),
        (["--set", "rnak=8"], "unknown parameter 'rnak' of askance train reader: did you mean 'rank'?"),
        (["--set", "method=qlora"], "expected one of lora, full"),
        (["--set", "learning_rate=fast"], "learning_rate='fast'"),
        (["--model", "scripted"], "model 'scripted' can't be trained: start from bundled, bundled:base"),
        (["--model", "hf:absent-folder/model?device=cpu"], "can't be trained"),
        (["--model", "hf:"], "can't be trained: start from bundled, bundled:base, or from hf:NAME"),
        (["--model", "gpt2"], "can't be trained"),
        (["--dataset", "jsonl:absent.jsonl"], "absent.jsonl"),
        (["--dataset", "hotpotq:x"], "did you mean 'hotpotqa'"),
        (["--dataset", "ROWS"], "is given more than once"),
        (["--limit", "0"], "a limit of 0 questions leaves none"),
        (["--set", "max_tokens=16"], "examples fits into 16 tokens: raise max_tokens"),
        (["--set", "bridged=2"], "--set bridged=2: only the recipe makes such training examples."),
    ],
)
def test_bad_input_exits_with_2_and_leaves_nothing(run, dataset, qwen_folder, tmp_path, words, expected):
    model = [] if "--model" in words else ["--model", f"hf:{qwen_folder}"]
    words = [dataset if word == "ROWS" else word for word in words]
    code, shown, told = run("train", "reader", "--dataset", dataset, *model, "--out", tmp_path / "r", *words)
    assert (code, shown) == (2, "")
    assert expected in " ".join(told.split())
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"paragraphs": []}, "the datasets hold nothing to learn from"),
        ({"answers": "red"}, "field answers: not a list"),
        ({"paragraphs": [{"text": "A cat.", "evidence": ["A dog."]}]}, "not in the paragraph"),
    ],
)
def test_rows_that_teach_nothing(run, qwen_folder, tmp_path, changed, expected):
    rows = written(tmp_path / "rows.jsonl", [row(1, "cat", "red", **changed)])
    words = ["--dataset", rows, "--model", f"hf:{qwen_folder}", "--out", tmp_path / "r"]
    code, shown, told = run("train", "reader", *words)
    assert (code, shown, left(tmp_path)) == (2, "", [])
    assert expected in " ".join(told.split())


def test_an_interrupt_keeps_what_is_learned(run, dataset, qwen_folder, tmp_path, monkeypatch):
    out = tmp_path / "reader"
    words = ["train", "reader", "--dataset", dataset, "--model", f"hf:{qwen_folder}", *TINY, "--out", out]
    learn = Trainer._train_step

    def interrupted(training, step):
        learn(training, step)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_train_step", interrupted)
        code, _, told = run(*words)
    assert code == 130
    assert "stopped at step 1/" in told
    assert left(tmp_path) == ["reader.training"]
    assert run(*words)[0] == 0
    assert json.loads((out / "curve.jsonl").read_text().splitlines()[0])["step"] == 1


def test_killed_and_gone_on_with_it_ends_with_the_same_weights(run, dataset, qwen_folder, tmp_path):
    """Killed after its first checkpoint, wherever it happens to be, in another process."""
    words = ["train", "reader", "--dataset", dataset, "--model", f"hf:{qwen_folder}", *TINY]
    words += ["--set", "epochs=8"]
    often = ["--set", "checkpoint_minutes=0", "--out", tmp_path / "a"]
    child = subprocess.Popen(
        [sys.executable, "-m", "askance", *words, *often],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": SOURCES, "OMP_NUM_THREADS": "1"},
    )
    checkpoint = tmp_path / "a.training" / "checkpoint.pt"
    while child.poll() is None and not checkpoint.exists():
        time.sleep(0.01)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert left(tmp_path) == ["a.training"]
    for name in ("a", "b"):
        assert run(*words, "--out", tmp_path / name)[0] == 0
    weights = [(tmp_path / name / "adapter_model.safetensors").read_bytes() for name in ("a", "b")]
    assert weights[0] == weights[1]
    assert left(tmp_path) == ["a", "b"]
