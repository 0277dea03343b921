"""Without llama-cpp-python, models of the kind gguf say what to install; the bundled one runs by torch."""

import subprocess
import sys

CODE = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *others: None if name == "llama_cpp" else found(name, *others)
from askance.core.errors import KnobError, MissingExtra
from askance.models.bundled import runs_by_llama_cpp
from askance.wire import load_model
for spec in ("gguf:model.gguf", "bundled?engine=llama.cpp"):
    try:
        load_model(spec)
    except MissingExtra as error:
        print(error)
print([runs_by_llama_cpp("", {}), runs_by_llama_cpp("torch", {}), runs_by_llama_cpp("", {"dtype": "auto"})])
"""


def test_what_is_told():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    told = (
        "a model of the kind gguf needs the package 'llama-cpp-python', which is not installed: "
        "pip install 'askance[gguf]'"
    )
    assert done.stdout.splitlines() == [told, told, "[False, False, False]"]
