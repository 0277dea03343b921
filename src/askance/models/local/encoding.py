"""Prompts to ids. Untrusted text never yields a control token, whatever it contains."""

import json
import re
import weakref
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, Any

from askance.core.errors import InputError, MissingAbility, ModelSpecError
from askance.core.strict_json import whole_characters
from askance.core.types import Chat, Part, Prompt, Span, TokenIds, Turn
from askance.inference.vocabulary import Vocabulary

if TYPE_CHECKING:
    from askance.models.local.chat_template import ChatTemplate

_RECENT_PROMPTS = 64
"""The ids of how many are remembered."""
_PLACEHOLDER = re.compile("\ue000([0-9]+)\ue001")


class Encoding:
    """How one model reads text: whoever runs it and whoever trains it make the same ids.

    Attributes:
        vocabulary: ids to text, control strings, single tokens.
        takes_chat: whether there is a chat template.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary, self._tokenizer, self._name = vocabulary, vocabulary.tokenizer, vocabulary.name
        # A reference that does not count, so that a model goes as soon as nobody else holds it.
        self._remembered = lru_cache(_RECENT_PROMPTS)(partial(Encoding._encoded, weakref.proxy(self)))
        self.takes_chat = bool(getattr(self._tokenizer, "chat_template", None))

    @property
    def fingerprint(self) -> str:
        """What tells how this model reads text and lays out prompts from how others do."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        reads = backend.to_str() if backend is not None else repr(sorted(self._tokenizer.get_vocab().items()))
        control, ends = sorted(self.vocabulary.control.items()), sorted(self.vocabulary.end_ids)
        whole = repr((reads, control, ends, chat_template_digest(self._tokenizer)))
        return blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    @property
    def end_id(self) -> int:
        """The one that a model is taught to end its texts with.

        Raises:
            ModelSpecError: the tokenizer has none.
        """
        if self._tokenizer.eos_token_id is None:
            raise ModelSpecError(
                f"the tokenizer of {self._name!r} names no end token, so its model can't be taught where "
                "to stop: set eos_token in its tokenizer_config.json."
            )
        return int(self._tokenizer.eos_token_id)

    def encode(self, prompt: Prompt) -> TokenIds:
        """The prompt as the model sees it.

        BOS stands in front of a raw prompt if the tokenizer adds one and the prompt has none. A chat prompt
        has what its template gives; where that takes no system turn, what it says begins the user's first.

        Raises:
            InputError: an empty prompt, an id outside the vocabulary, turns the chat template refuses.
            MissingAbility: a chat prompt for a model without a chat template.
        """
        # As a rule it is counted, then read, then counted for the trace.
        return self._remembered(prompt)

    def _encoded(self, prompt: Prompt) -> TokenIds:
        if isinstance(prompt, Chat):
            ids = self.parts((*self._render(prompt), *prompt.continuation))
        else:
            ids = self.with_bos(self.parts((*prompt.parts, *prompt.continuation)))
        if not ids:
            raise InputError(
                f"the prompt is empty, and model {self._name!r} has no BOS token to start from: "
                "give it at least one character."
            )
        return ids

    def with_bos(self, ids: TokenIds) -> TokenIds:
        """`ids` with the tokenizer's BOS in front, once."""
        bos = self.vocabulary.bos
        return ids if ids[: len(bos)] == bos else bos + ids

    def parts(self, parts: Sequence[Part], *, at_start: bool = True) -> TokenIds:
        """Ids of parts in a row, without BOS: adjacent spans are tokenised as one text, ids are kept."""
        ids: list[int] = []
        for is_text, group in groupby(parts, key=lambda part: isinstance(part, Span)):
            if is_text:
                texts = [part for part in group if isinstance(part, Span) and part.text]
                # Half a character is taken by no tokenizer.
                spans = [Span(whole_characters(part.text), part.trusted) for part in texts]
                ids += self._spans(spans, at_start=at_start and not ids)
                continue
            for part in group:
                assert isinstance(part, tuple)
                self.vocabulary.check_ids(part)
                ids += part
        return tuple(ids)

    def text_ids(self, text: str) -> TokenIds:
        """Plain text as the model writes it after a prompt: no BOS, no space in front, nothing is control."""
        return self.parts((Span(text, trusted=False),), at_start=False)

    def _spans(self, spans: Sequence[Span], *, at_start: bool) -> list[int]:
        """Adjacent spans as one text, unless that has a control string that no trusted span has by itself, or
        the tokenizer matches what is not literally there, for example after normalising.
        """
        text, trusted = "".join(span.text for span in spans), [span.text for span in spans if span.trusted]
        is_foreign = any(
            _count(text, string) != sum(_count(each, string) for each in trusted)
            for string in self.vocabulary.control.values()
            if string in text
        )
        if not is_foreign:
            ids = self.vocabulary.encode(text, at_start=at_start)
            alone = (self.vocabulary.encode(each, at_start=False) for each in trusted)
            if self._control_in(ids) == [id for each in alone for id in self._control_in(each)]:
                return ids
        return list(self._apart(spans, at_start=at_start))

    def _control_in(self, ids: Sequence[int]) -> list[int]:
        return [id for id in ids if id in self.vocabulary.telling_ids]

    def _apart(self, spans: Sequence[Span], *, at_start: bool) -> Iterator[int]:
        """Each span by itself, untrusted ones in ever smaller pieces until no control token is left."""
        for span in spans:
            ids = self.vocabulary.encode(span.text, at_start=at_start)
            is_literal = any(string in span.text for string in self.vocabulary.control.values())
            if span.trusted or not (is_literal or self._control_in(ids)):
                yield from ids
            elif len(span.text) == 1:
                raise InputError(
                    f"the character {span.text!r} is a control token of model {self._name!r} and can't be "
                    "part of a question or passage: remove it, or use another model."
                )
            else:
                half = len(span.text) // 2
                halves = (Span(span.text[:half], False), Span(span.text[half:], False))
                yield from self._apart(halves, at_start=at_start)
            at_start = False

    def _render(self, chat: Chat) -> list[Span]:
        """The chat template around the turns. Template text is trusted, spans keep their own flag."""
        if not self.takes_chat:
            raise MissingAbility(
                f"model {self._name!r} has no chat template: use a raw prompt (--set layout=raw), or an "
                "instruction-tuned model."
            )
        spans: list[Span] = []
        turns = chat.turns if self._takes_system else _folded(chat.turns)
        messages = [{"role": turn.role, "content": _hide(turn.parts, spans)} for turn in turns]
        pieces = _PLACEHOLDER.split(self._apply_template(messages))
        left_out = {*range(len(spans))}.difference(map(int, pieces[1::2]))
        if left_out:
            raise InputError(
                f"the chat template of model {self._name!r} leaves out {spans[min(left_out)].text[:60]!r}: "
                "give the turns in an order and with roles that the model takes."
            )
        return [spans[int(piece)] if at % 2 else Span(piece) for at, piece in enumerate(pieces)]

    @cached_property
    def _takes_system(self) -> bool:
        """Some templates refuse a system turn, others leave it out."""
        messages = [{"role": "system", "content": "\ue0000\ue001"}, {"role": "user", "content": "?"}]
        try:
            return bool(_PLACEHOLDER.search(self._apply_template(messages)))
        except InputError:
            return False

    def _apply_template(self, messages: list[dict[str, str]]) -> str:
        from jinja2 import TemplateError

        try:
            return self._template.render(messages)
        except TemplateError as error:
            roles = ", ".join(message["role"] for message in messages) or "no turns"
            raise InputError(
                f"the chat template of model {self._name!r} refuses these turns ({roles}): {error}. "
                "Many models want user and assistant to alternate, the user first."
            ) from error

    @cached_property
    def _template(self) -> "ChatTemplate":
        from askance.models.local.chat_template import ChatTemplate

        source = self._tokenizer.chat_template
        if isinstance(source, dict):  # several, by name
            source = source.get("default") or next(iter(source.values()))
        return ChatTemplate(source, self._tokenizer.special_tokens_map)


def _folded(turns: Sequence[Turn]) -> Sequence[Turn]:
    """The turns with a leading system turn as the first paragraph of the user's turn after it."""
    match turns:
        case [Turn("system", said), Turn("user", asked), *others]:
            return [Turn("user", (*said, Span("\n\n"), *asked)), *others]
    return turns


def _hide(parts: Sequence[Span], spans: list[Span]) -> str:
    """The turn's content with a placeholder for each span, added to `spans`.

    White space around a span stays outside, so that a template that strips its turns still does.
    """
    content = ""
    for part in parts:
        core = part.text.strip()
        if core:
            before, _, behind = part.text.partition(core)
            content += f"{before}\ue000{len(spans)}\ue001{behind}"
            spans.append(Span(core, part.trusted))
        else:
            content += part.text
    return content


def _count(text: str, string: str) -> int:
    """How often a string is in a text, occurrences that overlap included."""
    return len(re.findall(f"(?={re.escape(string)})", text))


def chat_template_digest(tokenizer: Any) -> str:
    """What tells one chat template from another, also from none: 32 hexadecimal digits."""
    template = json.dumps(getattr(tokenizer, "chat_template", None), sort_keys=True)
    return blake2b(template.encode(), digest_size=16).hexdigest()
