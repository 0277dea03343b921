"""Linguistics by name: our own, or those of a spaCy pipeline (sentences, parts of speech, named entities)."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from askance.core.errors import InputError, MissingExtra, ModelSpecError, ParameterError, UnknownName
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
    spec = f"spacy:{name}"
    if not name:
        raise ModelSpecError(
            f"linguistics {spec!r} names no pipeline: write spacy:en_core_web_sm or spacy:FOLDER."
        )
    if find_spec("spacy") is None:
        raise MissingExtra("spacy", "nlp", f"linguistics {spec!r}")
    try:
        import spacy

        read: Any = spacy.load(str(Path(name).expanduser()))
        probe = read(_PROBE)
    except Exception as error:  # loaders of files that may hold anything raise anything
        remedy = f"python -m spacy download {name}" if name.isidentifier() else "check the path"
        raise ModelSpecError(f"linguistics {spec!r} can't be loaded: {remedy}. {error}") from error

    def annotated(text: str, mark: str, error: type[InputError] = InputError) -> Any:
        if probe.has_annotation(mark):
            return read(text)
        what, component = _MARKERS[mark]
        there = ", ".join(read.pipe_names) or "nothing"
        raise error(
            f"linguistics {spec!r} finds no {what}: the pipeline holds {there}. Name one with "
            f"{component}, such as spacy:en_core_web_sm, or use linguistics=own."
        )

    def sentences(text: str) -> tuple[str, ...]:
        stripped = (sentence.text.strip() for sentence in read(text).sents)
        return tuple(filter(None, stripped))

    def content_spans(text: str) -> Spans:
        real = (token for token in annotated(text, "POS") if token.pos_ in REAL_WORD_TAGS)
        return tuple((token.idx, token.idx + len(token)) for token in real)

    def entities(text: str) -> Spans:
        return tuple((each.start_char, each.end_char) for each in annotated(text, "ENT_IOB").ents)

    annotated("", "SENT_START", ModelSpecError)
    return Linguistics(f"{spec} {read.meta['version']}", sentences, content_spans, entities)


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
        raise ParameterError(f"linguistics 'own:{name}': 'own' takes no name; leave out {':' + name!r}.")
    return OWN
