"""Self-RAG's instructions from a file, in TOML: a text for each task; what is left out stays as it is.

    claim = "Is this true? Say true or false."
    ambiguous = "Answer in several sentences, whatever the question may mean."

The separator between instruction and question is no part of it.
"""

from pathlib import Path

from askance.methods.selfrag.tasks import OWN_INSTRUCTIONS, Instructions
from askance.wordings import keys_of, read_words

_TASKS = ", ".join(keys_of(Instructions))
_START = f'Give "own", or a TOML file with a text for each task that is to change: {_TASKS}.'


def open_instructions(name: str | Path) -> Instructions:
    """Our own ("own"), or those of a file.

    Raises:
        UnknownName: a key that is no task; names the nearest.
        PromptsError: a file that can't be read, or a value that is no text.
    """
    if name == "own":
        return OWN_INSTRUCTIONS
    return read_words(Path(name), {"own": Instructions}, start=_START)
