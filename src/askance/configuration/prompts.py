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

``src/data.py?class=HotpotQA`` is the class of that name in the file of the DRAGIN authors' repository.
Every string is used exactly as written. See `docs/prompts.md`.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from askance.configuration.authors_prompts import read_authors_prompts
from askance.configuration.catalogue import AIRRAG_PROMPT_SETS, PROMPT_SETS
from askance.core.errors import PromptsError, UnknownName
from askance.core.extensions import find_extension
from askance.core.safe_text import json_line  # a string of JSON is one of TOML, too
from askance.core.spec import parse_spec
from askance.core.toml_file import read_toml
from askance.core.types import Demo
from askance.methods.airrag import prompts as airrag
from askance.methods.airrag.prompts import DEMO_KEYS, AirragPromptTemplate
from askance.methods.common.prompts import OWN, PLAIN, PromptTemplate
from askance.methods.selfrag.prompts import OWN_INSTRUCTIONS, Instructions
from askance.text.answers import awaits_answer, has_answer

TEMPLATES: Mapping[type[Any], Mapping[str, str]] = {
    PromptTemplate: PROMPT_SETS,
    AirragPromptTemplate: AIRRAG_PROMPT_SETS,
    Instructions: {"own": "Self-RAG"},
}
"""The packaged sets of each kind of template."""
_BUILT_IN: dict[tuple[type[Any], str], Any] = {
    (type(template), template.name): template for template in (OWN, PLAIN, airrag.OWN, airrag.READER)
} | {(Instructions, "own"): OWN_INSTRUCTIONS}
_OF_METHODS: Mapping[type[Any], str] = {AirragPromptTemplate: "of airrag", Instructions: "of selfrag"}
_NO_EXAMPLES: dict[str, Any] = {"examples": None, **{key: [] for key in DEMO_KEYS}}
"""The worked examples of a file for AirRAG, which never come from its base."""
W = TypeVar("W", bound=Any)
"""A prompt template."""


def open_prompts(
    name: str | Path,
    kind: type[W] = PromptTemplate,  # type: ignore[assignment]
    known: Iterable[str] = (),
) -> W:
    """Return a packaged prompt set by name, that of a plug-in, or the prompt set in a file.

    Args:
        name: A name, or a file. A file is given as a `Path`, or as a string that is not a single word. One
            that ends in ``.py`` is of the DRAGIN authors (see `authors_prompts`).
        kind: The class of the template.
        known: The names to suggest in place of an unknown one; by default those of the packaged sets.

    Raises:
        UnknownName: There is no such set. The message suggests the nearest name.
        PromptsError: The file can't be read or used. The message names the file, key and remedy.
    """
    if isinstance(name, str) and name in TEMPLATES[kind]:
        path = Path(__file__).parent / "prompt_sets" / f"{name}.toml"
        built_in: W | None = _BUILT_IN.get((kind, name))
        return built_in or dataclasses.replace(_read(path, kind), name=name, places={})
    extension = find_extension("prompts", name) if isinstance(name, str) else None
    if extension is not None:
        if not isinstance(extension.target, kind):
            told = f"{extension.target!r} is not a {kind.__name__}. Name one of this type."
            raise PromptsError(f"prompts {name}: {told}")
        return extension.target
    if isinstance(name, str) and re.fullmatch(r"[\w-]*", name):
        place = f"{_OF_METHODS.get(kind, '')} (a file is named with its ending, or as ./{name})".lstrip()
        raise UnknownName("prompt set", name, known or TEMPLATES[kind], place=place)
    file, _, _ = str(name).partition("?")
    if file.endswith(".py") and kind is PromptTemplate:
        template: Any = read_authors_prompts(Path(file), parse_spec(str(name)).options)
        _check_answers(Path(file), template)
        authors: W = template
        return authors
    return _read(Path(name), kind)


def prompts_toml(name: str | Path) -> str:
    """Return a prompt set of any kind but instructions, packaged or in a file, as a TOML string."""
    known, path = PROMPT_SETS | AIRRAG_PROMPT_SETS, Path(name)
    is_file = name not in AIRRAG_PROMPT_SETS and path.suffix != ".py" and path.is_file()
    base = _content(path, PromptTemplate).get("base") if is_file else name
    if base in [*AIRRAG_PROMPT_SETS]:
        return to_toml(open_prompts(name, AirragPromptTemplate), base="airrag")
    more = {"base": base} if base in [*PROMPT_SETS] else {}
    return to_toml(open_prompts(name, PromptTemplate, known), **more)


def to_toml(template: Any, **more: str) -> str:
    """Return a whole prompt set as a TOML string, which begins with the entries of `more`.

    Reading the string yields an equal set.
    """
    content = more | {key: getattr(template, key) for key in _keys_of(template)}
    lists = {key: value for key, value in content.items() if isinstance(value, tuple)}
    lines = [f"{key} = []" for key, demos in lists.items() if not demos]
    for key, value in content.items():
        if key not in lists:
            where = "  # only in chats" * (key == "system" and isinstance(template, PromptTemplate))
            lines.append(f"{key} = {json_line(value)}{where}")
    for key, demos in lists.items():
        for demo in demos:
            question, answer = json_line(demo.question), json_line(demo.answer)
            lines += ["", f"[[{key}]]", f"question = {question}", f"answer = {answer}"]
    return "\n".join(lines) + "\n"


def _keys_of(template: Any) -> tuple[str, ...]:
    """Return the keys that a file for this template may contain, which are all fields except the name."""
    return tuple(each.name for each in dataclasses.fields(template) if each.compare)


def _content(path: Path, kind: type[Any]) -> dict[str, Any]:
    start = f"`askance prompts {next(iter(TEMPLATES[kind]))}` prints a set to start from."
    if kind is Instructions:
        start = f"Give a TOML file with a text for each task that is to change: {', '.join(_keys_of(kind))}."
    return read_toml(path, "the prompts file", PromptsError, start)


def _read(path: Path, kind: type[W]) -> W:
    """Read a template from a file. Missing fields come from the set that the file names as its base.

    Raises:
        UnknownName: There is no such key or base. The message suggests the nearest name.
        PromptsError: The file can't be read, or a value can't be used.
    """
    bases, keys = TEMPLATES[kind], _keys_of(kind)
    content = _NO_EXAMPLES | _content(path, kind) if kind is AirragPromptTemplate else _content(path, kind)
    base = _text(path, "base", content.pop("base", next(iter(bases))))
    if base not in bases:
        raise UnknownName("base", base, bases, place=f"of prompts {path}")
    template: Any = open_prompts(base, kind)
    for key in content:
        if key not in keys:
            raise UnknownName("key", key, ("base", *keys), place=f"of prompts {path}")
    values = {key: getattr(template, key) for key in keys}
    values |= {key: _value(path, key, value, values[key]) for key, value in content.items()}
    if kind is AirragPromptTemplate:
        values["examples"] = _number_of_examples(path, values)
    read: W = kind(**values)
    if isinstance(read, PromptTemplate):
        _check_answers(path, read)
        changed = [key for key in content if getattr(read, key) != getattr(template, key)]
        return dataclasses.replace(read, places={key: f"prompts {path}, {key}" for key in changed})
    return read


def _number_of_examples(path: Path, values: Mapping[str, Any]) -> int:
    most, number = max(len(values[key]) for key in DEMO_KEYS), values["examples"]
    number = most if number is None else number
    if type(number) is not int or not 0 <= number <= most:
        raise PromptsError(
            f"prompts {path}, examples: {number!r} is not a number from 0 to {most}, the number in the file."
        )
    return number


def _check_answers(path: Path, template: PromptTemplate) -> None:
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
