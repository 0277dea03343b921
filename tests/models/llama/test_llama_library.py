"""The check of a llama.cpp library: other versions, structures, processors and systems are refused.

What is computed where none does is tested in processes of their own, since a library stays loaded.
"""

import ctypes
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import pytest
from tests.models.tiny import save_adapter, save_tiny_gguf

from askance.core.errors import MissingExtra, ModelSpecError
from askance.models.llama_cpp import library
from askance.models.llama_cpp.declarations import (
    MODEL_DEFAULTS,
    PACKAGE,
    VERSION,
    ContextSettings,
    ModelSettings,
)

REAL = library._open()


@pytest.fixture
def installed(monkeypatch):
    """Return a dictionary that sets the installed packages and their versions."""

    def version(package):
        if package not in versions:
            raise PackageNotFoundError(package)
        return versions[package]

    versions = {}
    monkeypatch.setattr(library, "version", version)
    return versions


class Changed:
    """The library with some functions replaced."""

    def __init__(self, **functions):
        self.__dict__.update(functions)

    def __getattr__(self, name):
        return library._symbol(REAL, name)


def refused():
    with pytest.raises(ModelSpecError) as caught:
        library.load()
    assert "To install it: " in str(caught.value)
    return str(caught.value)


def test_it_fits():
    source, found = library.load()
    assert source == library.SOURCE
    assert ctypes.sizeof(ModelSettings) > found.llama_model_default_params.restype.spare.offset


def test_none_is_installed(installed):
    with pytest.raises(MissingExtra, match=r"computing by llama\.cpp needs the package 'xllamacpp'.*install"):
        library.load()


@pytest.mark.parametrize("version", ["2026.10.11549", "2025.1.1"])
def test_another_version(installed, version):
    installed[PACKAGE] = version
    assert f"{version} is installed, and version {VERSION} is needed" in refused()


def test_the_runtime_of_openmp_is_missing(installed, monkeypatch):
    def fail(file):
        raise OSError("libgomp.so.1: cannot open shared object file: No such file or directory")

    installed[PACKAGE] = VERSION
    monkeypatch.setattr(library.ctypes, "CDLL", fail)
    told = refused()
    assert "llama.cpp can't be used: libgomp.so.1: cannot open" in told
    assert "install the system's package libgomp1" in told


def test_a_package_without_its_library(installed, monkeypatch, tmp_path):
    installed[PACKAGE] = VERSION
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(library, "find_spec", lambda name: spec)
    assert "xllamacpp has no file *" in refused()
    (tmp_path / "xllamacpp.abi3.so").write_bytes(b"no library")
    assert "xllamacpp.abi3.so" in refused()


@pytest.mark.parametrize("missing", ["llama_decode", "llama_memory_seq_rm", "ggml_get_name"])
def test_a_function_is_missing(missing):
    class Without(Changed):
        def __getattribute__(self, name):
            if name == missing:
                raise AttributeError(name)
            return super().__getattribute__(name)

        def __getattr__(self, name):
            if name == missing:
                raise AttributeError(name)
            return super().__getattr__(name)

    with pytest.raises(library.UnusableLibrary, match=f"has no function {missing}"):
        library._declare(Without())


def shifted(settings, field, num_bytes):
    """The defaults of a library with one more field before the tested one."""
    content = bytes(settings)
    at = getattr(type(settings), field).offset
    return type(settings).from_buffer_copy(content[:at] + bytes(num_bytes) + content[at:-num_bytes])


@pytest.mark.parametrize(
    ("kind", "field", "num_bytes"),
    [
        (ContextSettings, "embeddings", 8),
        (ContextSettings, "n_seq_max", 4),
        (ContextSettings, "flash_attn_type", 4),
        (ContextSettings, "cb_eval", 8),
        (ContextSettings, "op_offload", 1),
        (ModelSettings, "n_gpu_layers", 8),
        (ModelSettings, "main_gpu", 4),
        (ModelSettings, "vocab_only", 8),
        (ModelSettings, "check_tensors", 1),
    ],
)
def test_one_more_field(kind, field, num_bytes):
    name = "llama_model_default_params" if kind is ModelSettings else "llama_context_default_params"
    settings = shifted(getattr(library.llama, name)(), field, num_bytes)

    def function():
        return settings

    with pytest.raises(library.UnusableLibrary, match=f"have an unexpected layout: {kind.__name__}"):
        library._declare(Changed(**{name: function}))


def test_another_batch():
    def function(ids, count):
        return SimpleNamespace(
            n_tokens=0, token=ids, embd=None, pos=None, n_seq_id=None, seq_id=None, logits=1
        )

    with pytest.raises(library.UnusableLibrary, match="have an unexpected layout: Batch"):
        library._declare(Changed(llama_batch_get_one=function))


X86 = "processor\t: 0\nflags\t\t: fpu pni ssse3 sse4_1 avx f16c\nbugs\t\t: none\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd asimdhp\nCPU part\t: 0xd08\n"


@pytest.mark.parametrize(
    ("told", "instruction"), [(X86, "avx2"), (X86, "avx512"), (ARM, "dotprod"), (ARM, "sve")]
)
def test_a_processor_without_what_it_is_compiled_for(tmp_path, monkeypatch, told, instruction):
    (tmp_path / "cpuinfo").write_text(told)
    monkeypatch.setattr(library, "CPU_INFO", tmp_path / "cpuinfo")
    none = {f"ggml_cpu_has_{name}": lambda: 0 for name in library._FLAGS}
    library._check_processor(Changed(**none))
    with pytest.raises(
        library.UnusableLibrary, match=f"compiled for processors with {instruction.upper()}, which this"
    ):
        library._check_processor(Changed(**none | {f"ggml_cpu_has_{instruction}": lambda: 1}))
    monkeypatch.setattr(library, "CPU_INFO", tmp_path / "none")
    library._check_processor(Changed(**none | {f"ggml_cpu_has_{instruction}": lambda: 1}))


def test_what_is_checked_is_what_is_set():
    assert set(MODEL_DEFAULTS) <= {name for name, _ in ModelSettings._fields_}


def python(code, **settings):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


WITHOUT = """
import importlib.metadata, importlib.util
missing = {missing!r}
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
for spec in {specs!r}:
    with noted(tell):
        try:
            model = load_model(spec)
            print(type(model).__name__, model.name)
        except AskanceError as error:
            print(type(error).__name__, short(str(error)))
"""
NEEDED = "computing by llama.cpp needs the package 'xllamacpp', which is not installed"


def test_without_it_torch_computes_and_says_why(tmp_path):
    file = save_tiny_gguf(tmp_path / "tiny.gguf")
    specs = [f"gguf:{file}", f"gguf:{tmp_path}?adapter=lora.gguf", f"gguf:{tmp_path}/none.gguf"]
    told = python(WITHOUT.format(missing=[PACKAGE], specs=specs))
    note = "note: engine the model {} runs on torch, which is slower without a GPU: " + NEEDED
    assert told == [
        note.format(f"gguf:{file}"),
        f"HfModel {file}",
        f"MissingExtra {NEEDED}",
        note.format(f"gguf:{tmp_path}/none.gguf"),
        f"ModelSpecError model file '{tmp_path}/none.gguf' does not exist: check the path.",
    ]


def test_without_either_a_command_is_told(tmp_path):
    specs = ["gguf:model.gguf", "bundled", "bundled:base", "bundled?engine=llama.cpp"]
    told = python(WITHOUT.format(missing=[PACKAGE, "torch"], specs=specs))
    assert told == [f"MissingExtra {NEEDED}"] * len(specs)


ASKED = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
import askance
from askance.models import bundled
bundled._PACKAGE = "tiny_llm"
bundled.READER = Path({reader!r})
for method in ("single", "dragin"):
    parameters = {{"max_tokens": 16}}
    engine = askance.open_engine(index={index!r}, method=method, model={model!r}, parameters=parameters)
    print(engine.ask("Where was Ingmar Bergman born?").usage.generated_tokens > 0)
print(sorted({{name.partition(".")[0] for name in sys.modules}} & {{"torch", "transformers", "xllamacpp"}}))
"""


@pytest.mark.parametrize("model", ["bundled", "bundled:base"])
def test_a_question_is_answered_without_torch(tmp_path, sample_index, monkeypatch, model):
    from askance.models import bundled

    monkeypatch.setenv("ASKANCE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tiny_llm").mkdir()
    file = save_tiny_gguf(tmp_path / "tiny_llm" / bundled._FILE, 8192)
    reader = save_adapter(tmp_path / "reader", str(file), base_spec="bundled:base")
    code = ASKED.format(folder=str(tmp_path), reader=str(reader), index=str(sample_index), model=model)
    assert python(code) == ["True", "True", "[]"]
