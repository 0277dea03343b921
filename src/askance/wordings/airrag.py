r"""Prompt sets of AirRAG and Blender: the packaged ones by name, and those of users, in TOML files.

    base = "airrag"                         # says that it is such a set; texts left out come from there
    qt = "Rewrite the next query, or write None."
    examples = 2                            # how many of each action's are shown; all that the file has
    [[qt_demos]]
    question = "Where did he die?\\nKnown: Who was it? Sax\\nNext query: Where did he die?"
    answer = "Where did Sax die?"

`docs/prompts.md` says more.
"""

import dataclasses
from pathlib import Path

from askance.core.errors import PromptsError
from askance.methods.airrag.wording import DEMO_KEYS, OWN, READER, AirragWording
from askance.methods.prompts import Wording
from askance.wordings import WORDINGS, open_wording, open_words, read_table, read_words, toml_of

AIRRAG_WORDINGS = {
    "airrag": "airrag, airrag_lite and the last call of blender; what they use unless told otherwise",
    "airrag-reader": "the same in the words that trained readers know, and are asked with",
}
"""The packaged sets, and what each is for."""

_BUILT_IN = {"airrag": OWN, "airrag-reader": READER}
_START = "`askance prompts airrag` prints a set to start from."


def open_airrag_wording(name: str | Path) -> AirragWording:
    """The packaged set of this name, or the one in a file: a `Path`, or text that holds more than a word.

    Raises:
        UnknownName: no such set; names the nearest.
        PromptsError: a file that can't be read or used; names file, key and remedy.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[str(name)]
    return open_words(name, AirragWording, AIRRAG_WORDINGS, _read, "of airrag")


def shown_prompts(name: str | Path) -> str:
    """A packaged set of any kind, or a file, whole and in the file format.

    Raises:
        UnknownName, PromptsError: as for `open_wording`.
    """
    if name in AIRRAG_WORDINGS or (
        Path(name).is_file() and read_table(Path(name)).get("base") in [*_BUILT_IN]
    ):
        return toml_of(open_airrag_wording(name), base="airrag")
    if name in WORDINGS:
        return toml_of(open_wording(name))
    return toml_of(open_words(name, Wording, WORDINGS | AIRRAG_WORDINGS, open_wording))


def _read(path: Path) -> AirragWording:
    bases = {"airrag": lambda: OWN, "airrag-reader": lambda: READER}
    words = read_words(path, bases, start=_START, examples=None, say_demos=[], qt_demos=[], sa_demos=[])
    most = max(len(getattr(words, key)) for key in DEMO_KEYS)
    number = most if words.examples is None else words.examples
    if type(number) is not int or not 0 <= number <= most:
        raise PromptsError(
            f"prompts {path}, examples: {number!r} is no number from 0 to {most}, as many as the file has."
        )
    return dataclasses.replace(words, examples=number, name="wording")
