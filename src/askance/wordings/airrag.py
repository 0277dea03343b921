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
import re
from pathlib import Path
from typing import Any

from askance.core.errors import PromptsError, UnknownName
from askance.core.extensions import find_extension
from askance.methods.airrag.wording import OWN, READER, AirragWording
from askance.wordings import WORDINGS, open_wording, read_demos, read_table, read_text, toml_of, toml_text

AIRRAG_WORDINGS = {
    "airrag": "airrag, airrag_lite and the last call of blender; what they use unless told otherwise",
    "airrag-reader": "the same in the words that trained readers know, and are asked with",
}
"""The packaged sets, and what each is for."""

_BUILT_IN = {"airrag": OWN, "airrag-reader": READER}
_KEYS = tuple(each.name for each in dataclasses.fields(AirragWording) if each.compare)
_START = "`askance prompts airrag` prints a set to start from."
_DEMOS = ("say_demos", "qt_demos", "sa_demos")


def open_airrag_wording(name: str | Path) -> AirragWording:
    """The packaged set of this name, or the one in a file: a `Path`, or text that holds more than a word.

    Raises:
        UnknownName: no such set; names the nearest.
        PromptsError: a file that can't be read or used; names file, key and remedy.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[str(name)]
    extension = find_extension("prompts", name) if isinstance(name, str) else None
    if isinstance(extension, AirragWording):
        return extension
    if isinstance(name, str) and re.fullmatch(r"[\w-]*", name):
        place = f"of airrag (a file is named with its ending, or as ./{name})"
        raise UnknownName("prompt set", name, AIRRAG_WORDINGS, place=place)
    return _read(Path(name), read_table(Path(name), start=_START))


def shown_prompts(name: str | Path) -> str:
    """A packaged set of any kind, or a file, whole and in the file format.

    Raises:
        UnknownName, PromptsError: as for `open_wording`.
    """
    if name in AIRRAG_WORDINGS or (
        Path(name).is_file() and read_table(Path(name)).get("base") in [*_BUILT_IN]
    ):
        words = open_airrag_wording(name)
        return toml_text({"base": "airrag"} | {key: getattr(words, key) for key in _KEYS})
    if isinstance(name, str) and re.fullmatch(r"[\w-]*", name) and name not in WORDINGS:
        place = f"(a file is named with its ending, or as ./{name})"
        raise UnknownName("prompt set", name, (*WORDINGS, *AIRRAG_WORDINGS), place=place)
    return toml_of(open_wording(name))


def _read(path: Path, content: dict[str, Any]) -> AirragWording:
    for key in content:
        if key not in ("base", *_KEYS):
            raise UnknownName("key", key, ("base", *_KEYS), place=f"of prompts {path}")
    base = read_text(path, "base", content.pop("base", "airrag"))
    if base not in _BUILT_IN:
        raise UnknownName("base", base, _BUILT_IN, place=f"of prompts {path}")
    values: dict[str, Any] = {key: read_demos(path, key, content.pop(key, [])) for key in _DEMOS}
    most = max(map(len, values.values()))
    values["examples"] = _number(path, content.pop("examples", most), most)
    values |= {key: read_text(path, key, value) for key, value in content.items()}
    return dataclasses.replace(_BUILT_IN[base], **values, name="wording")


def _number(path: Path, value: Any, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise PromptsError(
            f"prompts {path}, examples: {value!r} is no number from 0 to {most}, as many as the file has."
        )
    return value
