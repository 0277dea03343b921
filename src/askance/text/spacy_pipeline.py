"""Linguistics by name: the built-in one, or a spaCy pipeline for sentences, parts of speech and entities."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from askance.core.errors import InputError, MissingExtra, ModelSpecError, UnknownName
from askance.text.linguistics import OWN, Linguistics, Spans, own_linguistics

REAL_WORD_TAGS = frozenset({"NOUN", "ADJ", "VERB", "PROPN", "NUM"})
"""The universal part-of-speech tags of content words, as in the DRAGIN authors' code."""

_MARKERS = {
    "SENT_START": ("sentences", "a parser, senter or sentencizer"),
    "POS": ("parts of speech", "a tagger with attribute_ruler, or a morphologizer"),
    "ENT_IOB": ("named entities", "an ner or entity_ruler"),
}
"""The annotations of spaCy by name, each with its description and the components that add it."""
_PROBE = "Anna saw Bonn. It rained."


def load_spacy(name: str) -> Linguistics:
    """Load a spaCy pipeline as linguistics.

    Content words are those tagged NOUN, ADJ, VERB, PROPN or NUM, and stop words those of the pipeline's
    language. The pipeline must find sentences. If it
    has no tagger or no entity recogniser, `InputError` is raised only when a method uses the missing
    annotation.

    Args:
        name: The name of a package, such as ``en_core_web_sm``, or a folder.

    Raises:
        MissingExtra: spaCy is not installed.
        ModelSpecError: The pipeline does not exist, can't be read, or finds no sentences.
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

        pipeline: Any = spacy.load(str(Path(name).expanduser()))
        probe = pipeline(_PROBE)
    except Exception as error:  # a pipeline's files may raise any exception
        remedy = f"python -m spacy download {name}" if name.isidentifier() else "check the path"
        raise ModelSpecError(f"linguistics {spec!r} can't be loaded: {remedy}. {error}") from error

    def annotated(text: str, mark: str, error: type[InputError] = InputError) -> Any:
        if probe.has_annotation(mark):
            return pipeline(text)
        what, component = _MARKERS[mark]
        components = ", ".join(pipeline.pipe_names) or "nothing"
        raise error(
            f"linguistics {spec!r} finds no {what}: the pipeline holds {components}. Name one with "
            f"{component}, such as spacy:en_core_web_sm, or use linguistics=own."
        )

    def sentences(text: str) -> tuple[str, ...]:
        stripped = (sentence.text.strip() for sentence in pipeline(text).sents)
        return tuple(filter(None, stripped))

    def content_spans(text: str) -> Spans:
        real = (token for token in annotated(text, "POS") if token.pos_ in REAL_WORD_TAGS)
        return tuple((token.idx, token.idx + len(token)) for token in real)

    def entities(text: str) -> Spans:
        return tuple((entity.start_char, entity.end_char) for entity in annotated(text, "ENT_IOB").ents)

    annotated("", "SENT_START", ModelSpecError)
    name, stop_words = f"{spec} {pipeline.meta['version']}", frozenset(pipeline.Defaults.stop_words)
    return Linguistics(name, sentences, content_spans, entities, stop_words)


def load_linguistics(spec: str) -> Linguistics:
    """Load linguistics by specification.

    Args:
        spec: ``own``, ``own:LANGUAGE`` such as ``own:german``, or ``spacy:PIPELINE`` with the
            name of a package or a folder.

    Raises:
        UnknownName: The kind of linguistics or the language is unknown.
        ModelSpecError: The pipeline can't be found or loaded.
        MissingExtra: spaCy is not installed. The message names the pip command.
    """
    kind, _, name = spec.partition(":")
    if kind == "spacy":
        return load_spacy(name)
    if kind != "own":
        raise UnknownName("linguistics", kind, ("own", "spacy"), place=f"in {spec!r}")
    return own_linguistics(name) if name else OWN
