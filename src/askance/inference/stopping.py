"""Stop strings, stop conditions and `max_tokens`, which end the generations of all models in the same manner.

The adapters of all models, including models on servers, pass their tokens through a `StopTracker`. It also
takes out the thoughts that a reasoning model writes before its answer. Some servers send thoughts separately.
Otherwise they stand in the text, between tags that differ from one family of models to another. A chat
template may open the first thought in the prompt, so that the text has only the closing tag.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from askance.core.types import Chat, GenerateRequest, Generation, Token, TokenIds

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
_TOKEN_CHARACTERS = 64
"""More characters than tokens have on average, of any model. Longer text counts as more tokens."""
_LONGEST_TAG = max(map(len, TAGS))
_PREFIXES = {tag[:size] for tag in (*TAGS, *TAGS.values()) for size in range(len(tag))}
_OPENING = re.compile(rf"^[^\S\n]*({'|'.join(map(re.escape, TAGS))})", re.MULTILINE)
_CLOSING = re.compile("|".join(map(re.escape, dict.fromkeys(TAGS.values()))))
_BARE_CHANNELS = "analysis", "assistantfinal"
"""What remains of harmony's tags at the start of the thoughts and of the answer if a server drops control
tokens."""
LEAKED = (
    "<|im_end|>", "<|im_start|>", "<|eot_id|>", "<|start_header_id|>", "<|end_of_text|>", "<|endoftext|>",
    "<|end|>", "<|user|>", "<|assistant|>", "<|return|>", "<end_of_turn>", "<start_of_turn>", "</s>",
    "[INST]", "[/INST]", "<｜end▁of▁sentence｜>", "<｜User｜>", "\nUser:", "\nHuman:", "\nQuestion:",
)  # fmt: skip
"""Strings that end a reply in a chat: marks of chat templates, and the next turn of the user."""


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


class StopTracker:
    """A growing generation, which a stop string, a stop condition or a limit of tokens can end.

    Only text of the answer counts for stop strings and conditions: no thoughts, and no white space before the
    answer's first character.

    Args:
        request: The request for the generation. Its callback gets each piece of the answer, as soon as no
            stop string can remove the piece.
        thoughts: What is known about the thoughts of the generation.

    Attributes:
        tokens: The tokens of the answer so far.
        finish: The reason why the generation has finished, or an empty string while it has not.
    """

    def __init__(self, request: GenerateRequest, thoughts: Thoughts = Thoughts()) -> None:
        self.tokens: list[Token] = []
        self.finish = ""
        self._sampling, self._until, self._on_text = request.sampling, request.until, request.on_text
        leaked = LEAKED if isinstance(request.prompt, Chat) else ()
        self._stops = (*request.sampling.stop, *leaked)
        self._starts_answer, self._num_blank = not request.prompt.continuation, 0
        self._keeps_thoughts = request.prompt.keeps_thoughts
        thoughts = Thoughts() if self._keeps_thoughts else thoughts
        self._expected, self._is_thinking, self._thoughts = thoughts, thoughts.are_open, ""
        self._has_thoughts, self._num_added, self._positions = thoughts.are_open, 0, list[int]()
        self._end_tokens: list[Token] = []
        self._keep_tokens = 0
        self._text, self._keep_chars, self._shown_chars = "", 0, 0

    @property
    def is_finished(self) -> bool:
        """Return whether the generation needs no further token."""
        return bool(self.finish)

    @property
    def num_left(self) -> int:
        """The greatest number of tokens that may still follow."""
        most = self._sampling.max_tokens
        num_left = most + self._expected.max_tokens - self._num_added
        return num_left if self._may_think else min(num_left, self._num_left_of_answer)

    @property
    def _num_left_of_answer(self) -> int:
        return self._sampling.max_tokens - max(len(self.tokens), len(self._text) // _TOKEN_CHARACTERS)

    @property
    def _may_think(self) -> bool:
        """True if the text so far is a thought, or may turn out to be one."""
        return self._is_thinking or (self._expected.may_be_open and not self._has_thoughts)

    def token(self, id: int, text: str, **signals: Any) -> Token:
        """Return a token that follows the text so far, with its signals by name."""
        start = len(self._text)
        return Token(id, text, start, start + len(text), **signals)

    def end(self, token: Token | None = None, *, finish: str = "end") -> None:
        """Finish the generation where the model or its server has ended the text.

        Args:
            token: The end token, which is not part of the text.
            finish: The finish reason. It is "length" if a server stopped at its own token limit, which this
                object can't detect, since the server may count tokens differently.
        """
        self._end_tokens = [] if token is None else [token]
        self._close(finish, len(self.tokens), len(self._text))

    def set_attention(self, weights: NDArray[np.float32], num_prompt: int) -> None:
        """Attach its attention weights to the last token, without those over thoughts.

        Args:
            weights: The weights over all tokens, shape [tokens] or [heads, tokens]. Those of a token that
                belongs to a thought are ignored.
            num_prompt: The number of tokens of the prompt.
        """
        if self._positions[-1:] == [self._num_added - 1]:
            if len(self.tokens) < self._num_added:
                answer = (num_prompt + position for position in self._positions)
                weights = weights[..., [*range(num_prompt), *answer]]
            self.tokens[-1] = replace(self.tokens[-1], attention=weights)

    def think(self, text: str) -> None:
        """Add a piece of a thought that a server sends separately, so the text has no open thought.

        If the prompt keeps thoughts, the piece is part of the text, without tags.
        """
        if self._keeps_thoughts:
            if not self.is_finished:
                self.add(self.token(-1, text))
            return
        self._num_added += 1
        self._thoughts, self._has_thoughts, self._is_thinking = self._thoughts + text, True, False
        self._check_limit()

    def add(self, token: Token) -> None:
        """Append the next token, which `token` made."""
        self._num_added += 1
        rest: str | None = token.text
        start = len(self._text)
        while rest is not None:
            if self._is_thinking:
                rest = self._close_thought(rest)
                if not rest:
                    self._check_limit()
                    return
            self._append(token if rest == token.text else replace(token, text=rest))
            rest = self._take_out_thoughts(len(rest))
        # What follows the limit of the answer is read only to find out whether it is a thought.
        is_read = self.tokens and self._num_left_of_answer >= 0
        cut = self._until(self.tokens) if self._until and is_read else None
        stop_start = self._find_stop(min(start, len(self._text)))
        if stop_start is not None:
            self._close("stop", sum(token.start < stop_start for token in self.tokens), stop_start)
        elif cut is not None:
            kept = self.tokens[: cut.keep_tokens]
            self._close(cut.reason, len(kept), kept[-1].end if kept else 0)
        elif self.num_left > 0:
            line = self._text[self._text.rfind("\n") + 1 :]
            num_chars_of_tag = len(line) if line.lstrip() in _PREFIXES else 0
            self._show(len(self._text) - max(_num_held(self._text, self._stops), num_chars_of_tag))
        self._check_limit()

    def generation(
        self,
        prompt_ids: TokenIds = (),
        prompt_tokens: int = 0,
        reused_tokens: int = 0,
        *,
        is_upper_bound: bool = False,
    ) -> Generation:
        """Return the finished generation."""
        kept = [_clipped(token, self._keep_chars) for token in self.tokens[: self._keep_tokens]]
        dropped = (*self.tokens[self._keep_tokens :], *self._end_tokens)
        text = self._text[: self._keep_chars]
        return Generation(
            text, tuple(kept), dropped, self.finish,
            prompt_ids, (), prompt_tokens, reused_tokens, is_upper_bound,
            self._thoughts.strip(), self._num_added - len(self.tokens),
        )  # fmt: skip

    def _append(self, token: Token) -> None:
        start = len(self._text)
        self.tokens.append(replace(token, start=start, end=start + len(token.text)))
        self._positions.append(self._num_added - 1)
        self._text += token.text

    def _close_thought(self, new: str) -> str | None:
        """Append to the thought, and return the text after its closing tag, or None if there is none yet."""
        self._thoughts += new
        found = _find_closing(self._thoughts, len(new))
        if found is None:
            return None
        rest, self._thoughts = self._thoughts[found[1] :], self._thoughts[: found[0]] + "\n"
        self._is_thinking = False
        return rest

    def _take_out_thoughts(self, num_new: int) -> str | None:
        """Take a thought out of the text so far.

        Returns:
            What follows the tag that opens a thought, or None if the text ends in the answer.
        """
        if self._keeps_thoughts:
            return None
        text, searched = self._text, max(0, len(self._text) - num_new)
        # A tag opens a thought only at the beginning of a line, so an answer may quote it elsewhere.
        line_start = text.rfind("\n", 0, searched) + 1
        opening = _OPENING.match(text, line_start) or _OPENING.search(text, searched)
        closing = _find_closing(text, num_new, is_first=not self._has_thoughts)
        if opening and not (closing and closing[0] < opening.start()):
            rest, self._text = text[opening.end() :], text[: opening.start()]
            self._is_thinking = self._has_thoughts = True
            self._drop(opening.start())
            return rest
        if closing and (self._may_think or (self._has_thoughts and not text[: closing[0]].strip())):
            # The prompt opened the thought, or a tag closes it for the second time.
            self._thoughts, last = self._thoughts + text[: closing[0]] + "\n", self.tokens[-1]
            self._has_thoughts, self._text = True, ""
            self._starts_answer, self._num_blank = True, 0
            self._drop(0)
            if rest := text[closing[1] :]:
                self._append(replace(last, text=rest))
                return self._take_out_thoughts(len(rest))
        return None

    def _drop(self, start: int) -> None:
        """Remove the tokens of the text from offset `start` on."""
        self.tokens[:] = [_clipped(token, start) for token in self.tokens if token.start < start]
        del self._positions[len(self.tokens) :]

    def _find_stop(self, start: int) -> int | None:
        """Return the offset of the first stop string that reaches beyond `start`, or None."""
        if self._starts_answer:
            self._num_blank = len(self._text) - len(self._text.lstrip())
            self._starts_answer = self._num_blank == len(self._text)
        starts = (max(start + 1 - len(stop), 0 if stop.strip() else self._num_blank) for stop in self._stops)
        offsets = map(self._text.find, self._stops, starts)
        return min((offset for offset in offsets if offset >= 0), default=None)

    def _check_limit(self) -> None:
        if not self.finish and self.num_left <= 0:
            self._close("length", len(self.tokens), len(self._text))

    def _close(self, finish: str, keep_tokens: int, keep_chars: int) -> None:
        most = self._sampling.max_tokens
        if keep_tokens > most:
            finish, keep_tokens, keep_chars = "length", most, self.tokens[most - 1].end
        if keep_chars > most * _TOKEN_CHARACTERS:
            finish, keep_chars = "length", most * _TOKEN_CHARACTERS
            keep_tokens = sum(token.start < keep_chars for token in self.tokens)
        self.finish, self._keep_tokens, self._keep_chars = finish, keep_tokens, keep_chars
        self._show(keep_chars)

    def _show(self, num_chars: int) -> None:
        is_known = self.finish or not self._may_think
        if self._on_text and is_known and num_chars > self._shown_chars:
            self._on_text(self._text[self._shown_chars : num_chars])
            self._shown_chars = num_chars


def _find_closing(text: str, num_new: int, *, is_first: bool = False) -> tuple[int, int] | None:
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


def opened_tag(prompt: str) -> str:
    """Return the opening tag with which a prompt ends, or an empty string."""
    return next((tag for tag in TAGS if prompt.rstrip().endswith(tag)), "")


@lru_cache(64)
def _prefixes(stops: tuple[str, ...]) -> frozenset[str]:
    """Return all proper prefixes of strings."""
    return frozenset(stop[:size] for stop in stops for size in range(1, len(stop)))


def _num_held(text: str, stops: tuple[str, ...]) -> int:
    """Return the length of the longest proper prefix of a stop string that `text` ends with."""
    sizes = range(min(max(map(len, stops), default=0), len(text)), 0, -1)
    return next((size for size in sizes if text[-size:] in _prefixes(stops)), 0)


def _clipped(token: Token, end: int) -> Token:
    if token.end <= end:
        return token
    return replace(token, text=token.text[: max(0, end - token.start)], end=end)
