"""Self-RAG's instructions from a file, in TOML: a text for each task; what is left out stays as it is.

    claim = "Is this true? Say true or false."
    ambiguous = "Answer in several sentences, whatever the question may mean."

The separator between instruction and question is no part of it.
"""

import dataclasses
from pathlib import Path

from askance.core.errors import UnknownName
from askance.methods.selfrag.tasks import OWN_INSTRUCTIONS, Instructions
from askance.wordings import read_table, read_text

_TASKS = tuple(each.name for each in dataclasses.fields(Instructions))
_START = f'Give "own", or a TOML file with a text for each task that is to change: {", ".join(_TASKS)}.'


def open_instructions(name: str | Path) -> Instructions:
    """Our own ("own"), or those of a file.

    Raises:
        UnknownName: a key that is no task; names the nearest.
        PromptsError: a file that can't be read, or a value that is no text.
    """
    if name == "own":
        return OWN_INSTRUCTIONS
    path = Path(name)
    content = read_table(path, start=_START)
    for key in content:
        if key not in _TASKS:
            raise UnknownName("task", key, _TASKS, place=f"of instructions {path}")
    return Instructions(**{task: read_text(path, task, value) for task, value in content.items()})
