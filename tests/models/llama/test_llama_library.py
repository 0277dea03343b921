"""The check of a llama.cpp library: other versions, processors and systems are refused.

What is computed where none does is tested in processes of their own, since a library stays loaded.
"""

import ctypes
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import pytest
from tests.models.tiny import save_adapter, save_tiny_gguf

from askance.core.errors import MissingExtra, ModelSpecError
from askance.models.llama_cpp import library
from askance.models.llama_cpp.context import num_threads
from askance.models.llama_cpp.declarations import PACKAGE, VERSION, ContextSettings, ModelSettings

MODEL_DEFAULTS = {
    "n_gpu_layers": -1,
    "load_mode": -1,
    "split_mode": 1,
    "lazy_mode": 1,
    "use_extra_bufts": True,
}
CONTEXT_DEFAULTS = {
    **dict.fromkeys(("n_ctx", "n_ubatch"), 512),
    "n_batch": 2048,
    **dict.fromkeys(("n_seq_max", "n_outputs_max_per_seq", "type_k", "type_v"), 1),
    **dict.fromkeys(("n_threads", "n_threads_batch"), 4),
    **dict.fromkeys(("rope_scaling_type", "pooling_type", "attention_type", "flash_attn_type"), -1),
    **dict.fromkeys(("yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow"), -1),
    "defrag_thold": -1,
    **dict.fromkeys(("offload_kqv", "no_perf", "op_offload", "swa_full"), True),
}


def test_the_structures_are_those_of_the_version():
    """A field that has moved shows the default value of another field."""
    source, functions = library.load()
    assert source == library.SOURCE
    for make, kind, expected in (
        (functions.llama_model_default_params, ModelSettings, MODEL_DEFAULTS),
        (functions.llama_context_default_params, ContextSettings, CONTEXT_DEFAULTS),
    ):
        settings = make()
        assert ctypes.sizeof(kind) > kind.spare.offset
        assert {field: getattr(settings, field) for field in expected} == expected
    batch = functions.llama_batch_init(2, 0, 1)
    assert not batch.embd
    assert all((batch.token, batch.pos, batch.n_seq_id, batch.seq_id, batch.logits))
    functions.llama_batch_free(batch)


def raising(error):
    def broken(*_):
        raise error

    return broken


NO_OPENMP = OSError("libgomp.so.1: cannot open shared object file: No such file or directory")
PLACE = {"find_spec": lambda name: SimpleNamespace(submodule_search_locations=["place"])}


@pytest.mark.parametrize(
    ("replaced", "content", "error", "told"),
    [
        (
            {"version": raising(PackageNotFoundError())},
            None,
            MissingExtra,
            "computing by llama.cpp needs the package 'xllamacpp'",
        ),
        ({"version": lambda _: "2025.1.1"}, None, ModelSpecError, f"2025.1.1 is installed, and v.*{VERSION}"),
        (
            {"ctypes": SimpleNamespace(CDLL=raising(NO_OPENMP))},
            None,
            ModelSpecError,
            r"can't be used: libgomp.so.1: cannot open.* \(install the system's package libgomp1\)",
        ),
        (PLACE, None, ModelSpecError, r"xllamacpp has no file \*"),
        (PLACE, b"no library", ModelSpecError, r"xllamacpp\.abi3\.so"),
    ],
)
def test_a_package_that_can_not_be_used(monkeypatch, tmp_path, replaced, content, error, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "place").mkdir()
    if content is not None:
        (tmp_path / "place" / "xllamacpp.abi3.so").write_bytes(content)
    for name, value in replaced.items():
        monkeypatch.setattr(library, name, value)
    with pytest.raises(error, match=f"{told}.*install"):
        library.load()


X86 = "processor\t: 0\nflags\t\t: fpu pni ssse3 sse4_1 avx f16c\nbugs\t\t: none\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd asimdhp\nCPU part\t: 0xd08\n"


@pytest.mark.parametrize(
    ("told", "instruction"), [(X86, "avx2"), (X86, "avx512"), (ARM, "dotprod"), (ARM, "sve")]
)
def test_a_processor_without_what_it_is_compiled_for(tmp_path, monkeypatch, told, instruction):
    none = {f"ggml_cpu_has_{name}": lambda: 0 for name in library._FLAGS}
    needing = SimpleNamespace(**none | {f"ggml_cpu_has_{instruction}": lambda: 1})
    monkeypatch.setattr(library, "CPU_INFO", tmp_path / "cpuinfo")
    library._check_processor(needing)  # a system that does not tell
    (tmp_path / "cpuinfo").write_text(told)
    library._check_processor(SimpleNamespace(**none))
    with pytest.raises(library.UnusableLibrary, match=f"for processors with {instruction.upper()}, which"):
        library._check_processor(needing)


@pytest.mark.parametrize(
    ("setting", "cores", "expected"),
    [("3", {1}, 3), ("100000", {1}, 512), ("", None, 6), *((bad, {1, 4, 5}, 3) for bad in ("0", "n", "4,2"))],
)
def test_a_thread_for_each_core_of_the_process_or_as_the_environment_says(
    monkeypatch, setting, cores, expected
):
    """A system may tell the cores of the machine only."""
    monkeypatch.setenv("OMP_NUM_THREADS", setting)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    if cores is None:
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    else:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores, raising=False)
    assert num_threads() == expected


def python(code, **values):
    code = "".join(f"{name} = {value!r}\n" for name, value in values.items()) + code
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


WITHOUT = """
import importlib.metadata, importlib.util
versions, specs = importlib.metadata.version, importlib.util.find_spec
def version(package):
    if package in missing:
        raise importlib.metadata.PackageNotFoundError(package)
    return versions(package)
importlib.metadata.version = version
importlib.util.find_spec = lambda name, *others: None if name in missing else specs(name, *others)
from askance.core.errors import AskanceError
from askance.core.installing import install_line
from askance.core.notes import noted
from askance.configuration.build import load_model
def short(text):
    return text.partition(" To install")[0].partition(": " + install_line("embedded"))[0]
def tell(name, text):
    print("note:", name, short(text))
for spec in specifications:
    with noted(tell):
        try:
            model = load_model(spec)
            print(type(model).__name__, model.name)
        except AskanceError as error:
            print(type(error).__name__, short(str(error)))
"""
NEEDED = "computing by llama.cpp needs the package 'xllamacpp', which is not installed"


def test_without_it_torch_computes_and_says_why_and_without_either_a_command_is_told(tmp_path):
    file = save_tiny_gguf(tmp_path / "tiny.gguf")
    specs = [f"gguf:{file}", f"gguf:{tmp_path}?adapter=lora.gguf", f"gguf:{tmp_path}/none.gguf"]
    note = "note: engine the model {} runs on torch, which is slower without a GPU: " + NEEDED
    assert python(WITHOUT, missing=[PACKAGE], specifications=specs) == [
        note.format(f"gguf:{file}"),
        f"HfModel {file}",
        f"MissingExtra {NEEDED}",
        note.format(f"gguf:{tmp_path}/none.gguf"),
        f"ModelSpecError model file '{tmp_path}/none.gguf' does not exist: check the path.",
    ]
    specs = ["gguf:model.gguf", "bundled", "bundled:base", "bundled?engine=llama.cpp"]
    told = python(WITHOUT, missing=[PACKAGE, "torch"], specifications=specs)
    assert told == [f"MissingExtra {NEEDED}"] * len(specs)


ASKED = """
import sys
from pathlib import Path
sys.path.insert(0, folder)
import askance
from askance.models import bundled
bundled._PACKAGE, bundled.READER = "tiny_llm", Path(reader)
for method, model in (("single", "bundled:base"), ("dragin", "bundled")):
    engine = askance.open_engine(index=index, method=method, model=model, parameters={"max_tokens": 16})
    print(engine.ask("Where was Ingmar Bergman born?").usage.generated_tokens > 0)
print(sorted({name.partition(".")[0] for name in sys.modules} & {"torch", "transformers", "xllamacpp"}))
"""


def test_a_question_is_answered_without_torch(tmp_path, sample_index, monkeypatch):
    from askance.models import bundled

    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tiny_llm").mkdir()
    file = save_tiny_gguf(tmp_path / "tiny_llm" / bundled._FILE, 8192)
    reader = save_adapter(tmp_path / "reader", str(file), base_spec="bundled:base")
    told = python(ASKED, folder=str(tmp_path), reader=str(reader), index=str(sample_index))
    assert told == ["True", "True", "[]"]
