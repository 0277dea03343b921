"""The worked examples in the DRAGIN authors' repository (Su et al. 2024, appendix F), read from their file.

The file, `src/data.py`, has a class for each dataset. Its list `examplars` holds the examples (question, cot,
answer), and its function `test_input_template` begins with the text before the question. The file is parsed
and never run: only literals are taken from it.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from askance.core.errors import PromptsError, UnknownName, first_flaw
from askance.core.types import Demo
from askance.methods.common.prompts import PromptTemplate

MOST_BYTES = 1_000_000
"""The maximum size of the file."""
_REMEDY = "Name the file src/data.py of the DRAGIN authors' repository."


@dataclass(frozen=True, slots=True)
class _Example:
    question: str
    cot: str | tuple[str, ...]
    answer: str


_EXAMPLES = TypeAdapter(Annotated[list[_Example], Field(min_length=1)])


def read_authors_prompts(path: Path, options: Mapping[str, Any]) -> PromptTemplate:
    """Return the template with the examples of one class in a file of the DRAGIN authors.

    Args:
        options: The name of the `class` and, optionally, the number of its first `examples` to take.

    Raises:
        PromptsError: The file can't be read or is too large, or its examples can't be used.
        UnknownName: There is no such option or class.
    """
    for option in options.keys() - {"class", "examples"}:
        raise UnknownName("option", option, ("class", "examples"), place=f"of prompts {path}")
    classes = _classes(path)
    name = options.get("class", "")
    if name not in classes:
        raise UnknownName("class", name, classes, place=f"of prompts {path}: write {path}?class=…")
    where, most = f"prompts {path}, class {name}", options.get("examples", "")
    try:
        examples = _EXAMPLES.validate_python(ast.literal_eval(classes[name]["examplars"]))
    except (ValueError, TypeError, RecursionError) as flaw:
        reason = first_flaw(flaw) if isinstance(flaw, ValidationError) else ": they are no literals"
        raise PromptsError(f"{where}: the examples can't be used{reason}. {_REMEDY}") from flaw
    if most and most not in map(str, range(1, len(examples) + 1)):
        raise PromptsError(f"{where}, examples: {most!r} is not a number from 1 to {len(examples)}.")
    demos = tuple(
        Demo(each.question, f"{''.join(each.cot)} So the answer is {each.answer}.")
        for each in examples[: int(most or len(examples))]
    )
    before = ""
    match classes[name].get("test_input_template"):
        case ast.Lambda(body=ast.JoinedStr(values=[ast.Constant(value=str(opening)), *_])):
            before = opening.removesuffix("Question: ")
    places = {"demos": where} | ({"before_question": where} if before else {})
    return PromptTemplate(demos, before_question=before, places=places)


def _classes(path: Path) -> dict[str, dict[str, ast.expr]]:
    """Return the class attributes, as expressions by name, of each class that has examples."""
    try:
        with path.open("rb") as file:
            source = file.read(MOST_BYTES + 1)
        if len(source) > MOST_BYTES:
            raise PromptsError(f"the prompts file {path} has more than {MOST_BYTES:,} bytes. {_REMEDY}")
        body = ast.parse(source).body
    except OSError as flaw:
        raise PromptsError(f"can't read the prompts file {path}: {flaw.strerror}. {_REMEDY}") from flaw
    except (SyntaxError, ValueError, RecursionError, MemoryError) as flaw:
        reason = str(flaw) or "nested too deeply"
        raise PromptsError(f"the prompts file {path} is not Python ({reason}). {_REMEDY}") from flaw
    classes = {node.name: _attributes(node) for node in body if isinstance(node, ast.ClassDef)}
    return {name: attributes for name, attributes in classes.items() if "examplars" in attributes}


def _attributes(node: ast.ClassDef) -> dict[str, ast.expr]:
    attributes = dict[str, ast.expr]()
    for statement in node.body:
        match statement:
            case ast.Assign(targets=targets, value=value):
                attributes |= {each.id: value for each in targets if isinstance(each, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                attributes[name] = value
    return attributes
