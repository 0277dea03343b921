"""Linguistics by name: our own, or those of a spaCy pipeline (sentences, parts of speech, named entities)."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from askance.core.errors import InputError, KnobError, MissingExtra, ModelSpecError, UnknownName
from askance.text.linguistics import OWN, Linguistics, Spans

REAL_WORD_TAGS = frozenset({"NOUN", "ADJ", "VERB", "PROPN", "NUM"})
"""Universal parts of speech of the words that carry content, as in the DRAGIN authors' code."""

_MARKERS = {
    "SENT_START": ("sentences", "a parser, senter or sentencizer"),
    "POS": ("parts of speech", "a tagger with attribute_ruler, or a morphologizer"),
    "ENT_IOB": ("named entities", "an ner or entity_ruler"),
}
"""What spaCy calls an annotation: what it is, and the component that makes it."""
_PROBE = "Anna saw Bonn. It rained."


def load_spacy(name: str) -> Linguistics:
    """The linguistics of a spaCy pipeline: a package such as ``en_core_web_sm``, or a folder.

    Real words are the surface forms tagged NOUN, ADJ, VERB, PROPN or NUM. Sentences are needed at once; a
    pipeline without a tagger or entities can be loaded, and raises InputError when it is asked for them.

    Raises:
        MissingExtra: spaCy is not installed.
        ModelSpecError: no such pipeline, one that can't be read, or one that finds no sentences.
    """
    if not name:
        raise ModelSpecError(
            "linguistics 'spacy:' names no pipeline: write spacy:en_core_web_sm or spacy:FOLDER."
        )
    if find_spec("spacy") is None:
        raise MissingExtra("spacy", "nlp", f"linguistics 'spacy:{name}'")
    pipeline = _Pipeline(name)
    return Linguistics(pipeline.version, pipeline.sentences, pipeline.content_spans, pipeline.entities)


class _Pipeline:
    def __init__(self, name: str) -> None:
        self._spec = f"spacy:{name}"
        try:
            self._read = _load(name)
            probe = self._read(_PROBE)
        except ModelSpecError:
            raise
        except Exception as error:  # loaders of files that may hold anything raise anything
            raise ModelSpecError(f"linguistics {self._spec!r} can't be loaded: {error}") from error
        self.version = f"{self._spec} {self._read.meta['version']}"
        self._lacking = [mark for mark in _MARKERS if not probe.has_annotation(mark)]
        self._annotated("", "SENT_START", ModelSpecError)

    def sentences(self, text: str) -> tuple[str, ...]:
        stripped = (sentence.text.strip() for sentence in self._read(text).sents)
        return tuple(sentence for sentence in stripped if sentence)

    def content_spans(self, text: str) -> Spans:
        real = (token for token in self._annotated(text, "POS") if token.pos_ in REAL_WORD_TAGS)
        return tuple((token.idx, token.idx + len(token)) for token in real)

    def entities(self, text: str) -> Spans:
        return tuple((each.start_char, each.end_char) for each in self._annotated(text, "ENT_IOB").ents)

    def _annotated(self, text: str, mark: str, error: type[InputError] = InputError) -> Any:
        """The text as the pipeline reads it, which must be able to annotate it so."""
        if mark not in self._lacking:
            return self._read(text)
        what, component = _MARKERS[mark]
        there = ", ".join(self._read.pipe_names) or "nothing"
        raise error(
            f"linguistics {self._spec!r} finds no {what}: the pipeline holds {there}. Name one with "
            f"{component}, such as spacy:en_core_web_sm, or use linguistics=own."
        )


def _load(name: str) -> Any:
    import spacy
    from spacy.util import is_package

    if is_package(name):
        return spacy.load(name)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return spacy.load(folder)
    remedy = f"python -m spacy download {name}" if name.isidentifier() else "check the path"
    raise ModelSpecError(
        f"linguistics 'spacy:{name}': there is no pipeline or folder of this name here: {remedy}."
    )


def load_linguistics(spec: str) -> Linguistics:
    """The linguistics that `spec` names: ``own``, or ``spacy:PIPELINE`` with a package or a folder.

    Raises:
        UnknownName: no such kind of linguistics.
        ModelSpecError: the pipeline can't be found or loaded.
        MissingExtra: spaCy is missing; names the pip line.
    """
    kind, _, name = spec.partition(":")
    if kind == "spacy":
        return load_spacy(name)
    if kind != "own":
        raise UnknownName("linguistics", kind, ("own", "spacy"), place=f"in {spec!r}")
    if name:
        raise KnobError(f"linguistics 'own:{name}': 'own' takes no name; leave out {':' + name!r}.")
    return OWN
