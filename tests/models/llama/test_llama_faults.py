"""Every failure inside llama.cpp becomes a Python error or a message: the process never ends silently."""

import asyncio
import subprocess
import sys
import threading
from dataclasses import dataclass

import pytest
from tests.contracts.model_contract import run

from askance.core.errors import ModelFailure
from askance.core.types import GenerateRequest, Raw, Sampling, Want
from askance.models.llama_cpp import LlamaModel
from askance.models.llama_cpp.context import PASS_TOKENS, Context, TensorCallback
from askance.models.llama_cpp.weights import Weights

ALL = Want(entropy=True, attention="mean")


@pytest.fixture
def opened(gguf_files):
    return Weights(gguf_files["qwen"][0])


@pytest.fixture
def model(opened):
    return LlamaModel(opened, name="qwen")


async def write(model, number=5, max_tokens=8, until=None):
    ids = tuple(range(number, number + 60))
    (generation,) = await model.generate(
        GenerateRequest(Raw((ids,)), Sampling(max_tokens), ALL, until, key=("faults",))
    )
    return [token.id for token in generation.tokens]


@dataclass(frozen=True)
class HeldUntil:
    """A stop condition that never stops a text, but makes it wait for an event."""

    event: threading.Event

    def __call__(self, tokens):
        assert self.event.wait(60)


@pytest.mark.parametrize("ids", [[10**6], [-1], [5] * 300])
def test_a_pass_that_llama_cpp_refuses(opened, ids):
    """Ids outside the vocabulary, and too many tokens, are refused; the context stays usable."""
    context = Context(opened, 2, 256, reads_attention=False)
    expected = context.forward([0], [0], [[5, 6, 7]], [1])[0][0]
    with pytest.raises(RuntimeError, match=r"llama\.cpp broke off with code -?\d+: .+"):
        context.forward([1], [0], [ids], [1])
    context.truncate(1, 0)
    assert (context.forward([1], [0], [[5, 6, 7]], [1])[0][0] == expected).all()


def test_more_tokens_than_a_pass_takes(opened):
    with pytest.raises(AssertionError, match="more tokens than a pass takes"):
        Context(opened, 1, 1024, reads_attention=False).forward([0], [0], [[5] * (PASS_TOKENS + 1)], [1])


@pytest.mark.parametrize("place", [0, 1, 7])
def test_logits_that_nobody_asked_for(opened, place):
    context = Context(opened, 1, 256, reads_attention=False)
    context.forward([0], [0], [[5, 6, 7]], [0])
    with pytest.raises(ValueError, match="NULL"):
        context._logits(place)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_while_attention_is_read(model, monkeypatch):
    """C can't pass on the exception: the text has no attention and is refused, and the next one succeeds."""
    expected = run(write(model))

    def broken(tensor):
        raise ZeroDivisionError

    run(model.clear_cache())
    with monkeypatch.context() as patch:
        patch.setattr("askance.models.llama_cpp.context._numbers", broken)
        with pytest.raises(ModelFailure, match="does not show the attention of the last layer"):
            run(write(model))
    assert run(write(model)) == expected


def test_a_pass_that_fails_after_llama_cpp_leaves_nothing(model, monkeypatch):
    """It is computed again, text by text, with the same results."""
    expected = [run(write(model, number)) for number in (5, 9, 13)]
    run(model.clear_cache())
    broken, are_queued, stop = [], threading.Event(), TensorCallback.stop

    def breaks(callback):
        stop(callback)
        if callback.tensor is not None and len(callback.tensor) > 1:
            broken.append(len(callback.tensor))
            raise RuntimeError("broken")

    async def together():
        """Hold the engine thread at the first text until the others are waiting."""
        first = asyncio.create_task(write(model, 5, until=HeldUntil(are_queued)))
        others = [asyncio.create_task(write(model, number)) for number in (9, 13)]
        for _ in range(10):
            await asyncio.sleep(0)
        are_queued.set()
        return await asyncio.gather(first, *others)

    monkeypatch.setattr(TensorCallback, "stop", breaks)
    assert run(together()) == expected
    assert broken


def test_attention_of_a_text_is_tried_again_where_there_was_no_memory(model, monkeypatch):
    ids = tuple(range(5, 60))

    def scarce(*_):
        raise RuntimeError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(Context, "_settings", scarce)
        with pytest.raises(ModelFailure, match="no room"):
            run(model.attend(ids, bos=False))
    assert run(model.attend(ids, bos=False)).weights.shape[-1] == len(ids)


def test_a_cancelled_text_frees_its_sequence(model):
    async def impatient():
        waiting = [asyncio.create_task(write(model, number, 300)) for number in range(5, 14)]
        while model.computed_tokens < 700:
            await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return await write(model)

    assert run(impatient()) == run(write(model))


CODE = """
import asyncio, os, sys
from askance.core.types import GenerateRequest, Raw, Sampling, Want
from askance.models.llama_cpp import load_gguf
model = load_gguf({file!r})
async def write(max_tokens):
    prompt, want = Raw((tuple(range(5, 60)),)), Want(attention="mean")
    (found,) = await model.generate(GenerateRequest(prompt, Sampling(max_tokens), want, key=("a",)))
    return found.text
"""
ENDS = {
    "behind a text": "asyncio.run(write(20))",
    "within a text": """
async def main():
    running = asyncio.create_task(write(400))
    while model.computed_tokens < 100:
        await asyncio.sleep(0)
    os.write(1, b"left ")
    raise SystemExit(0)
asyncio.run(main())
""",
    "within a text of another thread": """
import threading
threading.Thread(target=lambda: asyncio.run(write(400)), daemon=True).start()
while model.computed_tokens < 100:
    pass
""",
    "the model is freed first": "asyncio.run(write(20)); del model",
}


def ended(code, timeout=120):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=timeout
    )


@pytest.mark.parametrize("how", ENDS)
def test_the_process_ends_quietly(gguf_files, how):
    done = ended(CODE.format(file=str(gguf_files["qwen"][0])) + ENDS[how])
    assert (done.returncode, done.stderr) == (0, "")


FORK = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork while there are threads
here = asyncio.run(write(20))
child = os.fork()
if not child:
    os._exit(0 if asyncio.run(asyncio.wait_for(write(20), 60)) == here else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert asyncio.run(write(20)) == here
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_the_child_of_a_fork_computes_too(gguf_files):
    done = ended(CODE.format(file=str(gguf_files["qwen"][0])) + FORK)
    assert (done.returncode, done.stderr) == (0, "")


NO_SUCH_STREAM = """
from askance.models.llama_cpp.context import Context
Context(model._weights, 1, 256, reads_attention=False).truncate(7000, 0)
"""


def test_what_llama_cpp_takes_for_granted_is_told_when_it_is_not_so(gguf_files):
    done = ended(CODE.format(file=str(gguf_files["qwen"][0])) + NO_SUCH_STREAM)
    assert done.returncode == 1
    assert done.stderr.startswith("error: llama.cpp can't continue: ")
    assert "fetch it again" in done.stderr
    assert done.stderr.count("\n") == 1
