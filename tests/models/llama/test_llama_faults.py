"""Every failure inside llama.cpp becomes a Python error or a message: the process never ends silently."""

import subprocess
import sys

import pytest
from tests.contracts.model_contract import run
from tests.models.cut import writing
from tests.models.llama.calls import check_same, ids_of, written

from askance.core.errors import ModelFailure
from askance.inference.backend import StepInput
from askance.models.llama_cpp import LlamaModel
from askance.models.llama_cpp.context import PASS_TOKENS, Context, TensorCallback
from askance.models.llama_cpp.packing import GgufFile
from askance.models.llama_cpp.weights import Weights


@pytest.fixture
def opened(gguf_files):
    return Weights(gguf_files["qwen"][0])


@pytest.fixture
def model(opened):
    return LlamaModel(opened, name="qwen")


def test_a_pass_that_llama_cpp_refuses(opened):
    """Ids outside the vocabulary, and too many tokens, are refused; the context stays usable."""
    context = Context(opened, 2, 256, reads_attention=False)
    expected = context.forward([0], [0], [[5, 6, 7]], [1])[0][0]
    for ids in ([10**6], [-1], [5] * 300):
        with pytest.raises(RuntimeError, match=r"llama\.cpp broke off with code -?\d+: .+"):
            context.forward([1], [0], [ids], [1])
        context.truncate(1, 0)
        assert (context.forward([1], [0], [[5, 6, 7]], [1])[0][0] == expected).all()
        context.truncate(1, 0)
    with pytest.raises(AssertionError, match="more tokens than a pass takes"):
        context.forward([1], [0], [[5] * (PASS_TOKENS + 1)], [1])
    context.forward([1], [0], [[5, 6, 7]], [0])
    for place in (0, 1, 7):  # logits that nobody asked for
        with pytest.raises(ValueError, match="NULL"):
            context._logits(place)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_while_attention_is_read(model, monkeypatch):
    """C can't pass on the exception: the text has no attention and is refused, and the next one succeeds."""
    expected = written(model, ids_of(0))
    run(model.clear_cache())
    with monkeypatch.context() as patch:
        patch.setattr("askance.models.llama_cpp.context._numbers", lambda tensor: 1 / 0)
        with pytest.raises(ModelFailure, match="does not show the attention of the last layer"):
            written(model, ids_of(0))
    check_same([written(model, ids_of(0))], [expected])


def test_a_pass_that_fails_after_llama_cpp_leaves_nothing(model, monkeypatch):
    """It can be computed again, with the same results."""
    of, stop, found = model._backend, TensorCallback.stop, []
    slot = of.open(200, ids_of(0, 59), attention=True)
    step_input = StepInput(slot, 0, ids_of(0, 60), 1, True)

    def breaks(callback):
        stop(callback)
        raise RuntimeError("broken")

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(TensorCallback, "stop", breaks)
            with pytest.raises(RuntimeError, match="broken"):
                of.forward([step_input])
        (output,) = of.forward([step_input])
        found.append((*output.logits[0].logits, *output.attention.ravel()))
    assert found[0] == found[1]


def test_attention_of_a_text_is_tried_again_where_there_was_no_memory(model, monkeypatch):
    def scarce(*_):
        raise RuntimeError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(Context, "_settings", scarce)
        with pytest.raises(ModelFailure, match="no room"):
            run(model.attend(ids_of(0, 55), bos=False))
    assert run(model.attend(ids_of(0, 55), bos=False)).weights.shape[-1] == 55


CODE = """
import asyncio, os, sys, threading, warnings
from askance.core.types import GenerateRequest, Raw, Sampling, Want
from askance.models.llama_cpp import load_gguf
from askance.models.llama_cpp.context import Context
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork while there are threads
model = load_gguf(sys.argv[1])
async def write(max_tokens):
    prompt, want = Raw((tuple(range(5, 60)),)), Want(attention="mean")
    (found,) = await model.generate(GenerateRequest(prompt, Sampling(max_tokens), want, key=("a",)))
    return found.text
"""
ENDS = {
    "after a text, its model freed first": "asyncio.run(write(20)); del model",
    "within a text": """
async def main():
    running = asyncio.create_task(write(400))
    while model.computed_tokens < 100:
        await asyncio.sleep(0)
    raise SystemExit(0)
asyncio.run(main())
""",
    "within a text of another thread": """
threading.Thread(target=lambda: asyncio.run(write(400)), daemon=True).start()
while model.computed_tokens < 100:
    pass
""",
    "after a fork whose child computes, too": """
here = asyncio.run(write(20))
child = os.fork()
if not child:
    os._exit(0 if asyncio.run(asyncio.wait_for(write(20), 60)) == here else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert asyncio.run(write(20)) == here
""",
}


def ended(code, file):
    command = [sys.executable, "-c", CODE + code, str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_the_process_ends_quietly(gguf_files, code):
    done = ended(code, gguf_files["qwen"][0])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def abort(file, **values):
    """The end of a process that loads a copy of a model whose metadata has these values, and writes."""
    with writing(file.with_stem("damaged"), "qwen2") as writer:
        for name, value, *kinds in GgufFile(file).entries():
            writer.add_key_value(name, values.get(name.rpartition(".")[2], value), *kinds)
        for name, tensor in GgufFile(file).tensors.items():
            writer.add_tensor(name, tensor.data)
    return ended("asyncio.run(write(1))", file.with_stem("damaged"))


@pytest.mark.parametrize(
    "end",
    [
        lambda file: ended("Context(model._weights, 1, 256, reads_attention=False).truncate(7000, 0)", file),
        lambda file: abort(file, block_count=0),
        lambda file: abort(file, layer_norm_rms_epsilon=float("nan")),
        lambda file: abort(file, dimension_count=3),
    ],
)
def test_what_llama_cpp_takes_for_granted_is_told_when_it_is_not_so(gguf_files, end):
    done = end(gguf_files["qwen"][0])
    assert done.returncode == 2
    assert done.stderr.startswith("error: llama.cpp can't continue: ")
    assert "fetch it again" in done.stderr
    assert done.stderr.count("\n") == 1
