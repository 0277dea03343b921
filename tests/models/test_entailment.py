"""Test judges of entailment: the scripted one, and tiny models of both families that `hf:` takes."""

import shutil

import pytest
from tests.contracts.entailment_contract import EntailmentContract

from askance.configuration.build import load_entailment
from askance.core.errors import ModelSpecError, ParameterError, UnknownName
from askance.models.scripted import ScriptedEntailment


@pytest.fixture(scope="module")
def classifier_folder(tmp_path_factory):
    from tests.models.tiny_entailment import save_classifier

    return save_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture(scope="module", params=["scripted", "classifier", "writer"])
def entailment(request, classifier_folder, tmp_path_factory):
    from tests.models.tiny_entailment import save_writer

    if request.param == "scripted":
        return ScriptedEntailment()
    if request.param == "classifier":
        return load_entailment(f"hf:{classifier_folder}?device=cpu")
    return load_entailment(f"hf:{save_writer(tmp_path_factory.mktemp('writer'))}?dtype=float32")


class TestAdapters(EntailmentContract):
    """The scripted fake, a classifier and a model that writes its verdict."""


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["LABEL_0", "LABEL_1"], "has the labels LABEL_0, LABEL_1, of which not exactly one says"),
        (["not_entailment", "contradiction"], "not exactly one says entailment"),
        (["entailment", "strict entailment"], "not exactly one says entailment"),
        (["not_entailment", "entailment"], None),
    ],
)
def test_a_classifier_must_say_which_label_is_entailment(tmp_path, labels, message):
    from tests.models.tiny_entailment import save_classifier

    save_classifier(tmp_path, dict(enumerate(labels)))
    if message is None:
        assert load_entailment(f"hf:{tmp_path}").name == str(tmp_path)
        return
    with pytest.raises(ModelSpecError, match=message):
        load_entailment(f"hf:{tmp_path}")


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ("bundled", UnknownName, "unknown entailment 'bundled'.*Known: hf, scripted"),
        ("hf:", ModelSpecError, "names no model"),
        ("hf:x?adapter=y", UnknownName, "unknown entailment option 'adapter'"),
        ("hg:x", UnknownName, "unknown entailment 'hg:x'"),
        ("scripted:file", UnknownName, "unknown entailment 'scripted:file'"),
    ],
)
def test_names_that_can_not_be_used(spec, kind, message):
    with pytest.raises(kind, match=message):
        load_entailment(spec)


def test_models_that_can_not_judge(llama_folder, classifier_folder, tmp_path):
    (tmp_path / "model.gguf").touch()
    (tmp_path / "damaged").mkdir()
    shutil.copy(classifier_folder / "config.json", tmp_path / "damaged")
    for name, kind, message in (
        (llama_folder, ModelSpecError, "is a LlamaForCausalLM, which judges no entailment"),
        (tmp_path / "model.gguf", ModelSpecError, "is a GGUF file, which judges no entailment"),
        (tmp_path / "damaged", ModelSpecError, r"can't be loaded: .*Its files may be damaged"),
        ("/nowhere/at/all", ModelSpecError, "does not exist: check the path"),
        ("x?dtype=int3", ParameterError, "dtype='int3'"),
    ):
        with pytest.raises(kind, match=message):
            load_entailment(f"hf:{name}")
