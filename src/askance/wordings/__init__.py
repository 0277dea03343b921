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
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

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

_START = "`askance prompts own` prints a set to start from."
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
W = TypeVar("W", bound=Any)
"""A dataclass of words."""


def open_wording(name: str | Path) -> Wording:
    """The packaged set of this name, or the one in a file: a `Path`, or text that holds more than a word.

    Raises:
        UnknownName: no such set; names the nearest.
        PromptsError: a file that can't be read or used; names file, key and remedy.
    """
    if name in ("own", "plain"):
        return OWN if name == "own" else PLAIN
    if isinstance(name, str) and name in WORDINGS:
        return dataclasses.replace(_read(Path(__file__).with_name(f"{name}.toml")), name=name)
    return open_words(name, Wording, WORDINGS, _read)


def open_words(
    name: str | Path, kind: type[W], known: Mapping[str, str], read: Callable[[Path], W], place: str = ""
) -> W:
    """The words of an extension, or of a file.

    Args:
        known: the packaged sets, for errors.
    """
    extension = find_extension("prompts", name) if isinstance(name, str) else None
    if isinstance(extension, kind):
        return extension
    if extension is not None:
        raise PromptsError(f"prompts {name}: {extension!r} is no {kind.__name__}. Name one of this type.")
    if isinstance(name, str) and re.fullmatch(r"[\w-]*", name):
        place = f"{place} (a file is named with its ending, or as ./{name})".lstrip()
        raise UnknownName("prompt set", name, known, place=place)
    return read(Path(name))


def keys_of(words: Any) -> tuple[str, ...]:
    """What a file of such words may hold: all fields but the name."""
    return tuple(each.name for each in dataclasses.fields(words) if each.compare)


def toml_of(words: Any, **more: str) -> str:
    """The whole set in the file format, behind `more` texts; reading it gives an equal one."""
    content = more | {key: getattr(words, key) for key in keys_of(words)}
    lists = {key: value for key, value in content.items() if isinstance(value, tuple)}
    lines = [f"{key} = []" for key, demos in lists.items() if not demos]
    for key, value in content.items():
        if key not in lists:
            lines.append(f"{key} = {_quoted(value) if isinstance(value, str) else value}")
    for key, demos in lists.items():
        for demo in demos:
            question, answer = _quoted(demo.question), _quoted(demo.answer)
            lines += ["", f"[[{key}]]", f"question = {question}", f"answer = {answer}"]
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


def read_words(
    path: Path, bases: Mapping[str, Callable[[], W]], *, start: str = _START, **left_out: Any
) -> W:
    """A set of words from a file.

    Args:
        bases: those that what the file leaves out may come from; the first one unless it names another.
        left_out: what comes from no base.

    Raises:
        UnknownName: a key or a base that there is not; names the nearest.
        PromptsError: a file that can't be read, or a value of the wrong kind.
    """
    content = left_out | read_table(path, start=start)
    base = _text(path, "base", content.pop("base", next(iter(bases))))
    if base not in bases:
        raise UnknownName("base", base, bases, place=f"of prompts {path}")
    words = bases[base]()
    keys = keys_of(words)
    for key in content:
        if key not in keys:
            raise UnknownName("key", key, ("base", *keys), place=f"of prompts {path}")
    values = {key: _value(path, key, value, getattr(words, key)) for key, value in content.items()}
    return dataclasses.replace(words, **values)


def _read(path: Path) -> Wording:
    bases = {name: partial(open_wording, name) for name in WORDINGS}
    wording = dataclasses.replace(read_words(path, bases), name="wording")
    for number, demo in enumerate(wording.demos, start=1):
        if not has_answer(demo.answer):
            raise PromptsError(
                f"prompts {path}, demos, example {number}, answer: {demo.answer[-60:]!r} does not state the "
                'answer in the words that answers are recognised by. End it with "So the answer is ….".'
            )
    if not awaits_answer(wording.elicitation):
        raise PromptsError(
            f"prompts {path}, elicitation: no answer can be read after {wording.elicitation!r}. Say "
            '"the answer is" once, at its end; --set elicit=no asks for none.'
        )
    return wording


def _value(path: Path, key: str, value: Any, like: Any) -> Any:
    """A value that stands in place of `like`: examples, a text, or a number, which is not looked at."""
    if isinstance(like, tuple):
        return _demos(path, key, value if isinstance(value, list) else [value])
    return _text(path, key, value) if isinstance(like, str) else value


def _demos(path: Path, key: str, rows: list[Any]) -> tuple[Demo, ...]:
    for number, row in enumerate(rows, start=1):
        told = list(row.values()) if isinstance(row, dict) and set(row) == {"question", "answer"} else [""]
        if not all(isinstance(text, str) and text.strip() for text in told):
            raise PromptsError(
                f"prompts {path}, {key}, example {number}: it is {row!r}. Begin it with [[{key}]], and "
                "give it a question and an answer, two texts that are not empty, and nothing else. What "
                f"belongs to the whole set stands above the first [[{key}]]."
            )
    return tuple(Demo(**row) for row in rows)


def _text(path: Path, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise PromptsError(f"prompts {path}, {key}: {value!r} is no text. Write it between quotation marks.")
    return value
