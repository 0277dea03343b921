"""spaCy behind the linguistics seam, on pipelines that are made here: no model is downloaded."""

import re

import pytest

from askance.configuration.methods import make_method, method_class
from askance.core.errors import InputError, MissingExtra, ModelSpecError, UnknownName
from askance.core.installing import install_line
from askance.text.linguistics import OWN
from askance.text.spacy_pipeline import load_linguistics
from tests.laboratory import EVERY_METHOD

TEXT = " Jo Smith saw two old boats.  They sank near Bonn \n"
TAGS = [
    ("Jo Smith Bonn", "PROPN"),
    ("two", "NUM"),
    ("old", "ADJ"),
    ("boats", "NOUN"),
    ("saw sank", "VERB"),
    ("They", "PRON"),
    ("near", "ADP"),
    (". \n", "PUNCT"),
]
PERSONS = [{"label": "PERSON", "pattern": "Jo Smith"}, {"label": "GPE", "pattern": "Bonn"}]


@pytest.fixture
def pipeline(tmp_path):
    """Saves a pipeline with some of: sentencizer, attribute_ruler, entity_ruler; gives its specification."""
    spacy = pytest.importorskip("spacy")

    def save(*components):
        nlp = spacy.blank("en")
        for name in components:
            added = nlp.add_pipe(name)
            if name == "attribute_ruler":
                added.add([[{}]], {"POS": "X"})
                for forms, tag in TAGS:
                    added.add([[{"TEXT": {"IN": forms.split(" ")}}]], {"POS": tag})
            if name == "entity_ruler":
                added.add_patterns(PERSONS)
        nlp.to_disk(tmp_path / "pipeline")
        return f"spacy:{tmp_path / 'pipeline'}"

    return save


def test_what_a_pipeline_finds(pipeline):
    spec = pipeline("sentencizer", "attribute_ruler", "entity_ruler")
    found = load_linguistics(spec)
    assert found.sentences(TEXT) == ("Jo Smith saw two old boats.", "They sank near Bonn")
    assert found.real_words(TEXT) == {"Jo", "Smith", "saw", "two", "old", "boats", "sank", "Bonn"}
    assert [TEXT[start:end] for start, end in found.entities(TEXT)] == ["Jo Smith", "Bonn"]
    for none in ("", " \n"):
        assert (found.sentences(none), found.real_words(none), found.entities(none)) == ((), set(), ())
    assert found.is_stop_word("twelve,")
    assert found.stop_words == OWN.stop_words
    assert repr(found).startswith(spec), "a cache key tells pipelines and their versions apart"
    assert repr(found) != spec


def test_a_missing_component_is_named_when_it_is_needed(pipeline):
    with pytest.raises(
        ModelSpecError, match=r"finds no sentences: the pipeline holds nothing\. .*sentencizer"
    ):
        load_linguistics(pipeline())
    only_sentences = load_linguistics(pipeline("sentencizer"))
    assert only_sentences.sentences("It is. So be it.") == ("It is.", "So be it.")
    with pytest.raises(InputError, match=r"no parts of speech: the pipeline holds sentencizer\. .*tagger"):
        only_sentences.real_words("Bonn")
    with pytest.raises(InputError, match=r"no named entities: .*entity_ruler.*linguistics=own"):
        only_sentences.entities("Bonn")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("xx_none_web_sm", "python -m spacy download xx_none_web_sm"),
        ("{folder}/absent", "check the path"),
        ("{folder}", "can't be loaded"),
    ],
)
def test_pipelines_that_are_not_there(tmp_path, name, message):
    pytest.importorskip("spacy")
    with pytest.raises(ModelSpecError, match=message):
        load_linguistics(f"spacy:{name.format(folder=tmp_path)}")


@pytest.mark.parametrize(
    "name", [name for name in EVERY_METHOD if hasattr(method_class(name), "linguistics")]
)
def test_linguistics_by_name(name, monkeypatch):
    assert make_method(name, {"linguistics": "own"}).linguistics is OWN
    assert make_method(name, {"linguistics": OWN}).linguistics is OWN
    monkeypatch.setattr("askance.text.spacy_pipeline.find_spec", lambda name: None)
    for linguistics, error, message in (
        ("spcy:en_core_web_sm", UnknownName, "did you mean 'spacy'"),
        ("own:klingon", UnknownName, "unknown language 'klingon'"),
        ("spacy:", ModelSpecError, "names no pipeline"),
        ("spacy:en_core_web_sm", MissingExtra, re.escape(install_line("nlp"))),
    ):
        with pytest.raises(error, match=message):
            make_method(name, {"linguistics": linguistics})
    with pytest.raises(UnknownName, match="unknown parameter 'linguistics'"):
        make_method("flare", {"linguistics": "spacy:"})
