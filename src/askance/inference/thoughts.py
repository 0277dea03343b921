"""The thoughts of reasoning models, which stand before the answer and are no part of it.

Some servers send thoughts separately. Otherwise they stand in the text, between tags that differ from one
family of models to another. A chat template may open the first thought in the prompt, so that the text has
only the closing tag.
"""

import re
from dataclasses import dataclass

_FINAL = "<|channel|>final<|message|>"
_ANALYSIS = "<|channel|>analysis<|message|>"
TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "[THINK]": "[/THINK]",
    "<seed:think>": "</seed:think>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "◁think▷": "◁/think▷",
    _ANALYSIS: _FINAL,
    f"<|start|>assistant{_ANALYSIS}": _FINAL,
    "<|channel|>commentary<|message|>": _FINAL,
}
"""The closing tag for each opening tag. The last ones are channels of OpenAI's harmony format."""
MAX_THOUGHTS = 2048
"""The default maximum number of tokens of thoughts before an answer."""
_LONGEST_TAG = max(map(len, TAGS))
_PREFIXES = {tag[:size] for tag in (*TAGS, *TAGS.values()) for size in range(len(tag))}
_OPENING = re.compile(rf"^[^\S\n]*({'|'.join(map(re.escape, TAGS))})", re.MULTILINE)
_CLOSING = re.compile("|".join(map(re.escape, dict.fromkeys(TAGS.values()))))
_BARE_CHANNELS = "analysis", "assistantfinal"
"""What remains of harmony's tags at the start of the thoughts and of the answer if a server drops control
tokens."""


@dataclass(frozen=True, slots=True)
class Thoughts:
    """The knowledge about the thoughts of a generation before it starts.

    Attributes:
        max_tokens: The maximum number of tokens of thoughts, in addition to those of the answer.
        are_open: Whether the text starts inside a thought, which the prompt has opened.
        may_be_open: Whether the text may start inside a thought. Only a closing tag shows this, so text is
            read beyond the limit of the answer, and shown when the generation has finished.
    """

    max_tokens: int = 0
    are_open: bool = False
    may_be_open: bool = False


def find_opening(text: str, start: int) -> tuple[int, int] | None:
    """Return where the first opening tag in `text` begins and ends, or None if there is none.

    A tag opens a thought only at the beginning of a line, so an answer may quote it elsewhere.

    Args:
        start: The offset of the first line to search.
    """
    found = _OPENING.search(text, start)
    return None if found is None else found.span()


def find_closing(text: str, num_new: int, *, is_first: bool = False) -> tuple[int, int] | None:
    """Return where the first closing tag that reaches into the last characters begins and ends, or None.

    Args:
        num_new: The number of characters that have not been searched.
        is_first: Whether the text has had no other thoughts.
    """
    start = max(0, len(text) - num_new - _LONGEST_TAG)
    if found := _CLOSING.search(text, start):
        return found.span()
    first, last = _BARE_CHANNELS
    offset = text.find(last, start) if is_first and text.startswith(first) else -1
    return None if offset < 0 else (offset, offset + len(last))


def num_chars_of_tag(text: str) -> int:
    """Return how many characters at the end of `text` may become a tag."""
    line = text[text.rfind("\n") + 1 :]
    content = line.lstrip()
    return len(line) if content in _PREFIXES else 0


def opened_tag(prompt: str) -> str:
    """Return the opening tag with which a prompt ends, or an empty string."""
    return next((tag for tag in TAGS if prompt.rstrip().endswith(tag)), "")
