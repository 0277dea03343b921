r"""Prompt sets: the packaged ones by name, and those of users, in TOML files of one format.

    base = "hotpotqa"                       # the set that what is left out comes from; "own" unless named
    heading = "Passages:"                   # any field of `Wording` but its name
    before_question = "Think it over.\n"
    [[demos]]                               # the examples, all of them; `demos = []` for none
    question = "Which sea does the Rhone flow into?"
    answer = "The Rhone flows into the Mediterranean Sea. So the answer is the Mediterranean Sea."

Every text is taken to the letter. `docs/prompts.md` says more.
"""

import dataclasses
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from askance.core.errors import PromptsError, UnknownName
from askance.core.extensions import find_extension
from askance.core.types import Demo
from askance.methods.prompts import OWN, PLAIN, Wording
from askance.text.answers import awaits_answer, has_answer

WORDINGS = {
    "own": "any question; what every method uses unless told otherwise",
    "plain": "no examples: for models that know the form of an answer, such as one that was trained on it",
    "hotpotqa": "questions over two documents: one leads to the other, or both are compared",
    "2wikimultihopqa": "chains of relations, kinship, and comparisons also at the end of chains",
    "musique": "chains of two to four hops, folded into one question",
    "iirc": "answers that are names, numbers to be worked out, or yes and no",
    "strategyqa": "yes or no, where the question does not say which steps lead there",
}
"""The packaged sets, and the questions that each is for."""

_BUILT_IN = {"own": OWN, "plain": PLAIN}
_START = "`askance prompts own` prints a set to start from."
_KEYS = tuple(each.name for each in dataclasses.fields(Wording) if each.compare)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def open_wording(name: str | Path) -> Wording:
    """The packaged set of this name, or the one in a file: a `Path`, or text that holds more than a word.

    Raises:
        UnknownName: no such set; names the nearest.
        PromptsError: a file that can't be read or used; names file, key and remedy.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[str(name)]
    if isinstance(name, str) and name in WORDINGS:
        return dataclasses.replace(_read(Path(__file__).with_name(f"{name}.toml")), name=name)
    extension = find_extension("prompts", name) if isinstance(name, str) else None
    if extension is not None:
        if not isinstance(extension, Wording):
            raise PromptsError(f"prompts {name}: {extension!r} is no Wording. Name one of this type.")
        return extension
    if isinstance(name, str) and re.fullmatch(r"[\w-]*", name):
        place = f"(a file is named with its ending, or as ./{name})"
        raise UnknownName("prompt set", name, WORDINGS, place=place)
    return _read(Path(name))


def toml_of(wording: Wording) -> str:
    """The whole set in the file format; reading it gives an equal `Wording`."""
    return toml_text({key: getattr(wording, key) for key in _KEYS})


def toml_text(content: Mapping[str, Any]) -> str:
    """A file of texts and numbers by their keys, and below them of examples, in tables named by theirs."""
    lists = {key: value for key, value in content.items() if isinstance(value, tuple)}
    lines = [f"{key} = []" for key, demos in lists.items() if not demos]
    for key, value in content.items():
        if key not in lists:
            lines.append(f"{key} = {_quoted(value) if isinstance(value, str) else value}")
    for key, demos in lists.items():
        for demo in demos:
            lines += [
                "",
                f"[[{key}]]",
                f"question = {_quoted(demo.question)}",
                f"answer = {_quoted(demo.answer)}",
            ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A string on one line, with an escape for everything that does not print."""
    shown = (_ESCAPES.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}") for c in text)
    return f'"{"".join(shown)}"'


def read_table(path: Path, *, start: str = _START) -> dict[str, Any]:
    """What stands in a file of prompts.

    Args:
        start: how to come by such a file, for errors.

    Raises:
        PromptsError: it can't be read, or is not TOML.
    """
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise PromptsError(f"can't read the prompts {path}: {error.strerror}. {start}") from error
    except UnicodeDecodeError as error:
        raise PromptsError(f"prompts {path}: not UTF-8 text ({error}). Save it as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise PromptsError(f"prompts {path}: not TOML: {error}. {start}") from error


def _read(path: Path) -> Wording:
    content = read_table(path)
    for key in content:
        if key not in ("base", *_KEYS):
            raise UnknownName("key", key, ("base", *_KEYS), place=f"of prompts {path}")
    base = read_text(path, "base", content.pop("base", "own"))
    if base not in WORDINGS:
        raise UnknownName("base", base, WORDINGS, place=f"of prompts {path}")
    values: dict[str, Any] = {
        key: read_demos(path, key, value) if key == "demos" else read_text(path, key, value)
        for key, value in content.items()
    }
    for number, demo in enumerate(values.get("demos", ()), start=1):
        if not has_answer(demo.answer):
            raise PromptsError(
                f"prompts {path}, demos, example {number}, answer: {_end(demo.answer)!r} does not state the "
                'answer in the words that answers are recognised by. End it with "So the answer is ….".'
            )
    wording = dataclasses.replace(open_wording(base), **values, name="wording")
    if not awaits_answer(wording.elicitation):
        raise PromptsError(
            f"prompts {path}, elicitation: no answer can be read after {wording.elicitation!r}. Say "
            '"the answer is" once, at its end; --set elicit=no asks for none.'
        )
    return wording


def read_demos(path: Path, key: str, value: Any) -> tuple[Demo, ...]:
    """The examples under a key of a file of prompts; raises PromptsError where they are none."""
    if not isinstance(value, list):
        raise PromptsError(f"prompts {path}, {key}: expected tables. Begin each example with [[{key}]].")
    return tuple(_demo(path, key, number, row) for number, row in enumerate(value, start=1))


def _demo(path: Path, list_key: str, number: int, row: Any) -> Demo:
    place = f"{list_key}, example {number}"
    if not isinstance(row, dict) or set(row) != {"question", "answer"}:
        has = f"it has {', '.join(row) or 'nothing'}" if isinstance(row, dict) else f"it is {row!r}"
        raise PromptsError(
            f"prompts {path}, {place}: give it question and answer alone; {has}. What belongs to the whole "
            f"set stands above the first [[{list_key}]]."
        )
    demo = Demo(**{key: read_text(path, f"{place}, {key}", text) for key, text in row.items()})
    for key, text in row.items():
        if not text.strip():
            raise PromptsError(f"prompts {path}, {place}, {key}: it is empty. Write it, or drop the example.")
    return demo


def _end(text: str) -> str:
    return text if len(text) <= 60 else f"…{text[-60:]}"


def read_text(path: Path, key: str, value: Any) -> str:
    """A text of a file of prompts; raises PromptsError where it is none."""
    if not isinstance(value, str):
        raise PromptsError(f"prompts {path}, {key}: {value!r} is no text. Write it between quotation marks.")
    return value
