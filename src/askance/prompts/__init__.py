r"""Prompt sets: the packaged ones by name, and those of users, in TOML files.

    base = "hotpotqa"                       # the set that what is left out comes from; "own" unless named
    heading = "Passages:"                   # any field of `PromptTemplate` but its name
    before_question = "Think it over.\n"
    [[demos]]                               # the examples, all of them; `demos = []` for none
    question = "Which sea does the Rhone flow into?"
    answer = "The Rhone flows into the Mediterranean Sea. So the answer is the Mediterranean Sea."

Those of AirRAG and Blender are told by their base; texts left out come from there:

    base = "airrag"
    qt = "Rewrite the next query, or write None."
    examples = 2                            # how many of each action's are shown; all that the file has
    [[qt_demos]]
    question = "Where did he die?\nKnown: Who was it? Sax\nNext query: Where did he die?"
    answer = "Where did Sax die?"

Self-RAG's instructions have a text for each task; the separator between instruction and question is no part:

    claim = "Is this true? Say true or false."

Every text is taken to the letter. `docs/prompts.md` says more.
"""

import dataclasses
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from askance.core.errors import PromptsError, UnknownName
from askance.core.extensions import find_extension
from askance.core.types import Demo
from askance.methods.airrag import prompt_template as airrag
from askance.methods.airrag.prompt_template import DEMO_KEYS, AirragPromptTemplate
from askance.methods.common.prompts import OWN, PLAIN, PromptTemplate
from askance.methods.selfrag.tasks import OWN_INSTRUCTIONS, Instructions
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
AIRRAG_WORDINGS = {
    "airrag": "airrag, airrag_lite and the last call of blender; what they use unless told otherwise",
    "airrag-reader": "the same in the words that trained readers know, and are asked with",
}
"""The packaged sets of AirRAG and Blender, and what each is for."""

_BUILT_IN: dict[str, Any] = {words.name: words for words in (OWN, PLAIN, airrag.OWN, airrag.READER)}
_START = "`askance prompts {}` prints a set to start from."
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
W = TypeVar("W", bound=Any)
"""A dataclass of words."""


def open_wording(name: str | Path) -> PromptTemplate:
    """The packaged set of this name, or the one in a file: a `Path`, or text that holds more than a word.

    Raises:
        UnknownName: no such set; names the nearest.
        PromptsError: a file that can't be read or used; names file, key and remedy.
    """
    return _open(name, PromptTemplate, WORDINGS, _read_wording)


def open_airrag_wording(name: str | Path) -> AirragPromptTemplate:
    """The same for AirRAG and Blender."""
    return _open(name, AirragPromptTemplate, AIRRAG_WORDINGS, _read_airrag, "of airrag")


def open_instructions(name: str | Path) -> Instructions:
    """Self-RAG's instructions, our own ("own"), or those of a file; errors are those of `open_wording`."""
    if name == "own":
        return OWN_INSTRUCTIONS
    tasks = ", ".join(_keys_of(Instructions))
    start = f'Give "own", or a TOML file with a text for each task that is to change: {tasks}.'
    return _read(Path(name), ["own"], open_instructions, start)


def shown_prompts(name: str | Path) -> str:
    """A packaged set of any kind, or a file, whole and in the file format; errors as for `open_wording`."""
    known, path = WORDINGS | AIRRAG_WORDINGS, Path(name)
    if name in AIRRAG_WORDINGS or (path.is_file() and _table(path).get("base") in [*AIRRAG_WORDINGS]):
        return toml_of(open_airrag_wording(name), base="airrag")
    return toml_of(_open(name, PromptTemplate, known, _read_wording))


def toml_of(words: Any, **more: str) -> str:
    """The whole set in the file format, behind `more` texts; reading it gives an equal one."""
    content = more | {key: getattr(words, key) for key in _keys_of(words)}
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


def _open(
    name: str | Path, kind: type[W], known: Mapping[str, str], read: Callable[[Path], W], place: str = ""
) -> W:
    """The words of a packaged set, of an extension, or of a file."""
    if isinstance(name, str) and name in known:
        path = Path(__file__).with_name(f"{name}.toml")
        words: W = _BUILT_IN.get(name) or dataclasses.replace(read(path), name=name)
        return words
    extension = find_extension("prompts", name) if isinstance(name, str) else None
    if isinstance(extension, kind):
        return extension
    if extension is not None:
        raise PromptsError(f"prompts {name}: {extension!r} is no {kind.__name__}. Name one of this type.")
    if isinstance(name, str) and re.fullmatch(r"[\w-]*", name):
        place = f"{place} (a file is named with its ending, or as ./{name})".lstrip()
        raise UnknownName("prompt set", name, known, place=place)
    return read(Path(name))


def _keys_of(words: Any) -> tuple[str, ...]:
    """What a file of such words may hold: all fields but the name."""
    return tuple(each.name for each in dataclasses.fields(words) if each.compare)


def _read_wording(path: Path) -> PromptTemplate:
    wording = dataclasses.replace(_read(path, WORDINGS, open_wording), name="wording")
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


def _read_airrag(path: Path) -> AirragPromptTemplate:
    """Examples are never those of the base."""
    none: dict[str, Any] = {"examples": None, **{key: [] for key in DEMO_KEYS}}
    words = _read(path, AIRRAG_WORDINGS, open_airrag_wording, _START.format("airrag"), none)
    most = max(len(getattr(words, key)) for key in DEMO_KEYS)
    number = most if words.examples is None else words.examples
    if type(number) is not int or not 0 <= number <= most:
        raise PromptsError(
            f"prompts {path}, examples: {number!r} is no number from 0 to {most}, as many as the file has."
        )
    return dataclasses.replace(words, examples=number, name="wording")


def _read(
    path: Path,
    bases: Iterable[str],
    open_base: Callable[[str], W],
    start: str = _START.format("own"),
    left_out: Mapping[str, Any] = {},
) -> W:
    """A set of words from a file.

    Args:
        bases: those that what the file leaves out may come from; the first one unless it names another.
        start: how to come by such a file, for errors.
        left_out: what comes from no base.

    Raises:
        UnknownName: a key or a base that there is not; names the nearest.
        PromptsError: a file that can't be read, or a value of the wrong kind.
    """
    content = {**left_out, **_table(path, start)}
    base = _text(path, "base", content.pop("base", next(iter(bases))))
    if base not in bases:
        raise UnknownName("base", base, bases, place=f"of prompts {path}")
    words = open_base(base)
    keys = _keys_of(words)
    for key in content:
        if key not in keys:
            raise UnknownName("key", key, ("base", *keys), place=f"of prompts {path}")
    values = {key: _value(path, key, value, getattr(words, key)) for key, value in content.items()}
    return dataclasses.replace(words, **values)


def _table(path: Path, start: str = _START.format("own")) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise PromptsError(f"can't read the prompts {path}: {error.strerror}. {start}") from error
    except UnicodeDecodeError as error:
        raise PromptsError(f"prompts {path}: not UTF-8 text ({error}). Save it as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise PromptsError(f"prompts {path}: not TOML: {error}. {start}") from error


def _value(path: Path, key: str, value: Any, like: Any) -> Any:
    """A value that stands in place of `like`: examples, a text, or a number, which is not looked at."""
    if isinstance(like, str):
        return _text(path, key, value)
    if not isinstance(like, tuple):
        return value
    rows = value if isinstance(value, list) else [value]
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
