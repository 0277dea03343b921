"""The golden decisions of the DRAGIN authors' own classes, recomputed by llama.cpp.

Keys and values are float32 here, as they were there; in float16 the values that are compared differ in the
fourth digit. See `lab/tests/reproductions/test_dragin_tiny.py` for what was recorded.
"""

import pytest
from benchmarks.replay_reference import ask_anew
from lab.tests.reproductions.test_dragin_tiny import ENDS, FOLDER, RECORDINGS, RUNS, linguistics_of

from askance.models.llama_cpp import load_gguf
from askance.models.llama_cpp.library import llama
from tests.models.tiny_gguf import save_gguf

_FLOAT32 = 0


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    defaults = llama.llama_context_default_params

    def in_float32():
        settings = defaults()
        settings.type_k = settings.type_v = _FLOAT32
        return settings

    folder = tmp_path_factory.mktemp("golden")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama, "llama_context_default_params", in_float32)
        files = {
            name: save_gguf(
                folder / f"{name}.gguf",
                AutoModelForCausalLM.from_pretrained(FOLDER / "models" / name),
                AutoTokenizer.from_pretrained(FOLDER / "models" / name),
            )
            for name in ENDS
        }
        yield {name: load_gguf(str(file), display_name=name) for name, file in files.items()}


FIRST_RUNS = {(each.values[0], each.values[1]["settings"]["method"]): each for each in reversed(RUNS)}
"""The first run of each method with each model; transformers recomputes all of them."""


@pytest.mark.parametrize(("name", "run"), FIRST_RUNS.values())
def test_all_is_as_recorded(name, run, tiny):
    """Compare prompts, generated ids, decisions, kept texts, words, hits, values, queries and searches."""
    recording, result = RECORDINGS[name], run["results"][0]
    differences = ask_anew(recording, run, result, tiny[name], linguistics_of(recording))
    assert differences.found == {}, result["qid"]
