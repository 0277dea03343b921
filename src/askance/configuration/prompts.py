r"""Prompt sets: packaged sets by name, and users' own sets in TOML files.

    base = "hotpotqa"                       # the set that missing fields come from; "own" by default
    heading = "Passages:"                   # any field of `PromptTemplate` but its name
    before_question = "Think it over.\n"
    [[demos]]                               # replaces all worked examples; `demos = []` removes them
    question = "Which sea does the Rhone flow into?"
    answer = "The Rhone flows into the Mediterranean Sea. So the answer is the Mediterranean Sea."

A set for AirRAG and Blender names "airrag" as its base, which provides the missing prompts:

    base = "airrag"
    qt = "Rewrite the next query, or write None."
    examples = 2                            # the number of examples per action; all by default
    [[qt_demos]]
    question = "Where did he die?\nKnown: Who was it? Sax\nNext query: Where did he die?"
    answer = "Where did Sax die?"

A file for Self-RAG has an instruction for each task, without the separator between instruction and question:

    claim = "Is this true? Say true or false."

Every string is used exactly as written. See `docs/prompts.md`.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from askance.configuration.catalogue import AIRRAG_PROMPT_SETS, PROMPT_SETS
from askance.core.errors import PromptsError, UnknownName
from askance.core.extensions import find_extension
from askance.core.toml_file import read_toml
from askance.core.types import Demo
from askance.methods.airrag import prompts as airrag
from askance.methods.airrag.prompts import DEMO_KEYS, AirragPromptTemplate
from askance.methods.common.prompts import OWN, PLAIN, PromptTemplate
from askance.methods.selfrag.prompts import OWN_INSTRUCTIONS, Instructions
from askance.text.answers import awaits_answer, has_answer

_BUILT_IN: dict[str, Any] = {template.name: template for template in (OWN, PLAIN, airrag.OWN, airrag.READER)}
_WHAT, _START = "the prompts file", "`askance prompts {}` prints a set to start from."
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
W = TypeVar("W", bound=Any)
"""A prompt template."""


def open_prompts(name: str | Path) -> PromptTemplate:
    """Return a packaged prompt set by name, or the prompt set in a file.

    Args:
        name: A name, or a file. A file is given as a `Path`, or as a string that is not a single word.

    Raises:
        UnknownName: There is no such set. The message suggests the nearest name.
        PromptsError: The file can't be read or used. The message names the file, key and remedy.
    """
    return _open(name, PromptTemplate, PROMPT_SETS, _read_prompt_template)


def open_airrag_prompts(name: str | Path) -> AirragPromptTemplate:
    """Return a prompt set for AirRAG and Blender (see `open_prompts`)."""
    return _open(name, AirragPromptTemplate, AIRRAG_PROMPT_SETS, _read_airrag, "of airrag")


def open_instructions(name: str | Path) -> Instructions:
    """Return the built-in instructions for Self-RAG ("own"), or those in a file (see `open_prompts`)."""
    if name == "own":
        return OWN_INSTRUCTIONS
    tasks = ", ".join(_keys_of(Instructions))
    start = f'Give "own", or a TOML file with a text for each task that is to change: {tasks}.'
    return _read(Path(name), ["own"], open_instructions, start)


def prompts_toml(name: str | Path) -> str:
    """Return a prompt set of any kind, packaged or in a file, as a TOML string."""
    known, path = PROMPT_SETS | AIRRAG_PROMPT_SETS, Path(name)
    is_file = name not in AIRRAG_PROMPT_SETS and path.is_file()
    start = _START.format("own")
    base = read_toml(path, _WHAT, PromptsError, start).get("base") if is_file else name
    if base in [*AIRRAG_PROMPT_SETS]:
        return to_toml(open_airrag_prompts(name), base="airrag")
    return to_toml(_open(name, PromptTemplate, known, _read_prompt_template))


def to_toml(template: Any, **more: str) -> str:
    """Return a whole prompt set as a TOML string, which begins with the entries of `more`.

    Reading the string yields an equal set.
    """
    content = more | {key: getattr(template, key) for key in _keys_of(template)}
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
    """Return `text` as a quoted TOML string on one line, with an escape for each non-printing character."""
    shown = (_ESCAPES.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}") for c in text)
    return f'"{"".join(shown)}"'


def _open(
    name: str | Path, kind: type[W], known: Mapping[str, str], read: Callable[[Path], W], place: str = ""
) -> W:
    """Return the template of a packaged set, an extension, or a file."""
    if isinstance(name, str) and name in known:
        path = Path(__file__).parent / "prompt_sets" / f"{name}.toml"
        template: W = _BUILT_IN.get(name) or dataclasses.replace(read(path), name=name)
        return template
    extension = find_extension("prompts", name) if isinstance(name, str) else None
    if extension is not None:
        if not isinstance(extension.target, kind):
            told = f"{extension.target!r} is not a {kind.__name__}. Name one of this type."
            raise PromptsError(f"prompts {name}: {told}")
        return extension.target
    if isinstance(name, str) and re.fullmatch(r"[\w-]*", name):
        place = f"{place} (a file is named with its ending, or as ./{name})".lstrip()
        raise UnknownName("prompt set", name, known, place=place)
    return read(Path(name))


def _keys_of(template: Any) -> tuple[str, ...]:
    """Return the keys that a file for this template may contain, which are all fields except the name."""
    return tuple(each.name for each in dataclasses.fields(template) if each.compare)


def _read_prompt_template(path: Path) -> PromptTemplate:
    template = dataclasses.replace(_read(path, PROMPT_SETS, open_prompts), name="prompts")
    for number, demo in enumerate(template.demos, start=1):
        if not has_answer(demo.answer):
            raise PromptsError(
                f"prompts {path}, demos, example {number}, answer: {demo.answer[-60:]!r} does not state the "
                'answer in the words that answers are recognised by. End it with "So the answer is ….".'
            )
    if not awaits_answer(template.elicitation):
        raise PromptsError(
            f"prompts {path}, elicitation: no answer can be read after {template.elicitation!r}. Say "
            '"the answer is" once, at its end; --set ask_short_answer=no asks for none.'
        )
    return template


def _read_airrag(path: Path) -> AirragPromptTemplate:
    """Read a prompt set for AirRAG. Its worked examples never come from the base."""
    none: dict[str, Any] = {"examples": None, **{key: [] for key in DEMO_KEYS}}
    template = _read(path, AIRRAG_PROMPT_SETS, open_airrag_prompts, _START.format("airrag"), none)
    most = max(len(getattr(template, key)) for key in DEMO_KEYS)
    number = most if template.examples is None else template.examples
    if type(number) is not int or not 0 <= number <= most:
        raise PromptsError(
            f"prompts {path}, examples: {number!r} is not a number from 0 to {most}, the number in the file."
        )
    return dataclasses.replace(template, examples=number, name="prompts")


def _read(
    path: Path,
    bases: Iterable[str],
    open_base: Callable[[str], W],
    start: str = _START.format("own"),
    left_out: Mapping[str, Any] = {},
) -> W:
    """Read a template from a file.

    Args:
        bases: The names of the sets that missing fields may come from. The first is the default.
        start: The advice on how to make such a file, for error messages.
        left_out: The fields that never come from the base, with their defaults.

    Raises:
        UnknownName: There is no such key or base. The message suggests the nearest name.
        PromptsError: The file can't be read, or a value has the wrong type.
    """
    content = {**left_out, **read_toml(path, _WHAT, PromptsError, start)}
    base = _text(path, "base", content.pop("base", next(iter(bases))))
    if base not in bases:
        raise UnknownName("base", base, bases, place=f"of prompts {path}")
    template = open_base(base)
    keys = _keys_of(template)
    for key in content:
        if key not in keys:
            raise UnknownName("key", key, ("base", *keys), place=f"of prompts {path}")
    values = {key: _value(path, key, value, getattr(template, key)) for key, value in content.items()}
    return dataclasses.replace(template, **values)


def _value(path: Path, key: str, value: Any, like: Any) -> Any:
    """Return a value from a file, converted to the type of `like`, which is a string or a tuple of examples.

    For a `like` of any other type, such as a number, the value is returned unchecked.
    """
    if isinstance(like, str):
        return _text(path, key, value)
    if not isinstance(like, tuple):
        return value
    rows = value if isinstance(value, list) else [value]
    for number, row in enumerate(rows, start=1):
        texts = list(row.values()) if isinstance(row, dict) and set(row) == {"question", "answer"} else [""]
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise PromptsError(
                f"prompts {path}, {key}, example {number}: it is {row!r}. Begin it with [[{key}]], and "
                "give it a question and an answer, two texts that are not empty, and nothing else. What "
                f"belongs to the whole set stands above the first [[{key}]]."
            )
    return tuple(Demo(**row) for row in rows)


def _text(path: Path, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise PromptsError(
            f"prompts {path}, {key}: {value!r} is not a text. Write it between quotation marks."
        )
    return value
