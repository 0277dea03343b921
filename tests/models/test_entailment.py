"""Judges of entailment: the scripted one, and tiny models of both families that `hf:` takes."""

import pytest
from tests.contracts.entailment_contract import EntailmentContract

from askance.configuration.build import load_entailment
from askance.core.errors import ModelSpecError, ParameterError, UnknownName
from askance.models.scripted import ScriptedEntailment


@pytest.fixture(scope="module")
def classifier_folder(tmp_path_factory):
    from tests.models.tiny_entailment import save_classifier

    return save_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture(scope="module")
def classifier(classifier_folder):
    return load_entailment(f"hf:{classifier_folder}?device=cpu")


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    from tests.models.tiny_entailment import save_writer

    return load_entailment(f"hf:{save_writer(tmp_path_factory.mktemp('writer'))}?dtype=float32")


class TestScripted(EntailmentContract):
    @pytest.fixture
    def entailment(self):
        return ScriptedEntailment()


class TestClassifier(EntailmentContract):
    @pytest.fixture
    def entailment(self, classifier):
        return classifier


class TestWriter(EntailmentContract):
    @pytest.fixture
    def entailment(self, writer):
        return writer


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({0: "LABEL_0", 1: "LABEL_1"}, "has the labels LABEL_0, LABEL_1, of which not exactly one says"),
        ({0: "not_entailment", 1: "contradiction"}, "not exactly one says entailment"),
        ({0: "entailment", 1: "strict entailment"}, "not exactly one says entailment"),
    ],
)
def test_a_classifier_must_say_which_label_is_entailment(tmp_path, labels, told):
    from tests.models.tiny_entailment import save_classifier

    save_classifier(tmp_path, labels)
    with pytest.raises(ModelSpecError, match=told):
        load_entailment(f"hf:{tmp_path}")


def test_not_entailment_is_another_label(tmp_path):
    from tests.models.tiny_entailment import save_classifier

    save_classifier(tmp_path, {0: "not_entailment", 1: "entailment"})
    assert load_entailment(f"hf:{tmp_path}").name == str(tmp_path)


@pytest.mark.parametrize(
    ("spec", "error", "told"),
    [
        ("bundled", UnknownName, "unknown entailment 'bundled'.*Known: hf, scripted"),
        ("hf:", ModelSpecError, "names no model"),
        ("hf:/nowhere/at/all", ModelSpecError, "does not exist: check the path"),
        ("hf:x?adapter=y", UnknownName, "unknown entailment option 'adapter'"),
        ("hf:x?dtype=int3", ParameterError, "dtype='int3'"),
        ("hg:x", UnknownName, "unknown entailment 'hg:x'"),
        ("scripted:file", UnknownName, "unknown entailment 'scripted:file'"),
    ],
)
def test_names_that_can_not_be_used(spec, error, told):
    if spec in ("hf:/nowhere/at/all", "hf:x?dtype=int3"):
        pytest.importorskip("torch")
    with pytest.raises(error, match=told):
        load_entailment(spec)


def test_models_that_judge_nothing(llama_folder, classifier_folder, tmp_path):
    with pytest.raises(ModelSpecError, match="is a LlamaForCausalLM, which judges no entailment"):
        load_entailment(f"hf:{llama_folder}")
    (tmp_path / "model.gguf").touch()
    with pytest.raises(ModelSpecError, match="is a GGUF file, which judges no entailment"):
        load_entailment(f"hf:{tmp_path / 'model.gguf'}")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "config.json").write_bytes((classifier_folder / "config.json").read_bytes())
    with pytest.raises(ModelSpecError, match=r"can't be loaded: .*Its files may be damaged"):
        load_entailment(f"hf:{damaged}")
