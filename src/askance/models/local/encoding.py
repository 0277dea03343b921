"""The encoding of prompts as token ids, in which untrusted text never yields a control token."""

import json
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

from askance.core.errors import InputError, MissingAbility
from askance.core.parameters import Parameters, checked_dataclass, parameter, parse_parameters
from askance.core.safe_text import whole_characters
from askance.core.types import Chat, Part, Prompt, Span, TokenIds, Turn
from askance.inference.stopping import MAX_THOUGHTS, TAGS, Thoughts, opened_tag
from askance.inference.vocabulary import EncodedText, Vocabulary

if TYPE_CHECKING:
    from askance.models.local.chat_template import ChatTemplate

_RECENT_PROMPTS = 64
"""The number of prompts whose ids are cached."""
_PLACEHOLDER = re.compile("\ue000([0-9]+)\ue001")


@checked_dataclass()
class Thinking(Parameters):
    """The way in which a reasoning model thinks in chats."""

    owner: ClassVar[str] = "a reasoning model"

    enable_thinking: bool | None = parameter(None, "whether to think, if the chat template can turn it off")
    reasoning_effort: str = parameter("", "how much to think, if the chat template takes this, such as low")
    max_thoughts: int = parameter(
        MAX_THOUGHTS, "maximum number of tokens of thoughts before an answer", at_least=0
    )

    @property
    def variables(self) -> dict[str, Any]:
        """The variables of the chat template."""
        variables = {"enable_thinking": self.enable_thinking, "reasoning_effort": self.reasoning_effort}
        return {name: value for name, value in variables.items() if value not in (None, "")}

    @property
    def fingerprint(self) -> str:
        """A description of the settings; empty if they are the defaults."""
        return repr(self) if self != Thinking() else ""

    @classmethod
    def take(cls, options: dict[str, str]) -> "Thinking":
        """Remove the options that are about thinking from those of a model, and return them parsed.

        Raises:
            ParameterError: A value has the wrong type or is out of range.
        """
        own = {field.name: options.pop(field.name) for field in fields(cls) if field.name in options}
        return cls(**parse_parameters(cls, own))


class Encoding:
    """The encoding of a model's prompts by its tokenizer and its chat template.

    Inference and training share this class, so that both produce the same ids.

    Attributes:
        vocabulary: The tokenizer with its control tokens.
        thinking: How the model thinks in chats.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.thinking = Thinking()
        self.vocabulary, self._tokenizer, self._name = vocabulary, vocabulary.tokenizer, vocabulary.name
        # The reference is weak, so that a model is freed as soon as nothing else uses it.
        self._cached_encode = lru_cache(_RECENT_PROMPTS)(partial(Encoding._encode, weakref.proxy(self)))
        self.takes_chat = bool(getattr(self._tokenizer, "chat_template", None))

    @property
    def fingerprint(self) -> str:
        """The digest of the tokenizer, the control tokens and the chat template."""
        backend, vocabulary = getattr(self._tokenizer, "backend_tokenizer", None), self.vocabulary
        text = backend.to_str() if backend is not None else repr(sorted(self._tokenizer.get_vocab().items()))
        control, ends = sorted(vocabulary.control.items()), sorted(vocabulary.end_ids)
        settings = repr((text, control, ends, chat_template_digest(self._tokenizer)))
        settings += self.thinking.fingerprint
        return blake2b(settings.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def encode(self, prompt: Prompt) -> TokenIds:
        """Return the token ids of a prompt, exactly as the model gets them.

        A raw prompt gets BOS if the tokenizer adds BOS and the prompt lacks it. A chat prompt is rendered by
        the chat template. If the template takes no system turn, the first user turn begins with the content
        of the system turn.

        Raises:
            InputError: The prompt is empty, has an id outside the vocabulary, or has turns that the chat
                template refuses.
            MissingAbility: The prompt is a chat, but the model has no chat template.
        """
        # Most prompts are encoded three times: to be counted, to be computed, and to be counted in the trace.
        return self._cached_encode(prompt, True)[0]

    def encode_with_texts(self, prompt: Prompt, *, bos: bool = True) -> tuple[TokenIds, tuple[str, ...]]:
        """Return the token ids of a prompt, and the text of each token (see `Generation.prompt_texts`).

        Args:
            bos: Whether a raw prompt gets BOS as in `encode`.

        Raises:
            InputError, MissingAbility: See `encode`.
        """
        ids, encoded = self._cached_encode(prompt, bos)
        texts, control = [text for each in encoded for text in each.texts()], self.vocabulary.control
        texts = [*[""] * (len(ids) - len(texts)), *texts]  # BOS has no text
        return ids, tuple(" " if id in control else text for id, text in zip(ids, texts, strict=True))

    def _encode(self, prompt: Prompt, bos: bool) -> tuple[TokenIds, list[EncodedText]]:
        parts = self._render(prompt) if isinstance(prompt, Chat) else prompt.parts
        is_answer = isinstance(prompt, Chat) and prompt.continuation and not prompt.keeps_thoughts
        if is_answer and (tag := self._opened_tag):
            parts = [*parts, Span(f"{TAGS[tag]}\n\n")]
        encoded = list(self._encoded((*parts, *prompt.continuation), at_start=True))
        ids = tuple(id for each in encoded for id in each.ids)
        if bos and not isinstance(prompt, Chat) and ids[: len(self.vocabulary.bos)] != self.vocabulary.bos:
            ids = self.vocabulary.bos + ids
        if not ids:
            raise InputError(
                f"the prompt is empty, and model {self._name!r} has no BOS token to start from: "
                "give it at least one character."
            )
        return ids, encoded

    def thoughts(self, prompt: Prompt, room: int) -> Thoughts:
        """Return what is known about the thoughts before the text that follows a prompt.

        Args:
            room: The number of tokens of the context window that are left for thoughts.
        """
        if not isinstance(prompt, Chat) or prompt.continuation or self.thinking.enable_thinking is False:
            return Thoughts()
        template = str(self._tokenizer.chat_template)
        max_tokens = self.thinking.max_thoughts if any(tag in template for tag in TAGS) else 0
        return Thoughts(max(0, min(max_tokens, room)), are_open=bool(self._opened_tag))

    @cached_property
    def _opened_tag(self) -> str:
        """The tag of the thought that the chat template opens before the model writes, or an empty string."""
        return opened_tag(self._apply_template([{"role": "user", "content": "?"}]))

    def parts(self, parts: Sequence[Part], *, at_start: bool = True) -> TokenIds:
        """Return the token ids of parts, without BOS.

        Adjacent spans form one string. Parts that are token ids already stay unchanged.

        Args:
            at_start: Whether the parts start a prompt.
        """
        return tuple(id for each in self._encoded(parts, at_start=at_start) for id in each.ids)

    def _encoded(self, parts: Sequence[Part], *, at_start: bool) -> Iterator[EncodedText]:
        for is_text, group in groupby(parts, key=lambda part: isinstance(part, Span)):
            if is_text:
                texts = [part for part in group if isinstance(part, Span) and part.text]
                # Tokenizers refuse incomplete characters.
                spans = [Span(whole_characters(part.text), part.trusted) for part in texts]
                encoded = list(self._spans(spans, at_start=at_start))
            else:
                ids = [id for part in group if isinstance(part, tuple) for id in part]
                self.vocabulary.check_ids(ids)
                encoded = [EncodedText(ids, partial(self.vocabulary.texts, ids))]
            at_start = at_start and not any(each.ids for each in encoded)
            yield from encoded

    def _spans(self, spans: Sequence[Span], *, at_start: bool) -> Iterable[EncodedText]:
        """Tokenize adjacent spans as one string, or one by one if untrusted text could yield a control token.

        That is possible if the joined string contains a control token that is not inside a single trusted
        span. It is also possible if the tokenizer yields a control token that is not literally in the string,
        for example after normalization.
        """
        text, trusted = "".join(span.text for span in spans), [span.text for span in spans if span.trusted]
        is_foreign = any(
            _count(text, string) != sum(_count(trusted_text, string) for trusted_text in trusted)
            for string in self.vocabulary.control.values()
            if string in text
        )
        if not is_foreign:
            encoded = self.vocabulary.encode(text, at_start=at_start)
            trusted_ids = (self.vocabulary.encode(part, at_start=False).ids for part in trusted)
            if self._control_in(encoded.ids) == [id for ids in trusted_ids for id in self._control_in(ids)]:
                return [encoded]
        return self._span_by_span(spans, at_start=at_start)

    def _control_in(self, ids: Sequence[int]) -> list[int]:
        return [id for id in ids if id in self.vocabulary.unambiguous_ids]

    def _span_by_span(self, spans: Sequence[Span], *, at_start: bool) -> Iterator[EncodedText]:
        """Tokenize spans one by one, splitting untrusted spans until they yield no control token."""
        for span in spans:
            encoded = self.vocabulary.encode(span.text, at_start=at_start)
            is_literal = any(string in span.text for string in self.vocabulary.control.values())
            if span.trusted or not (is_literal or self._control_in(encoded.ids)):
                yield encoded
            elif len(span.text) == 1:
                raise InputError(
                    f"the character {span.text!r} is a control token of model {self._name!r} and can't be "
                    "part of a question or passage: remove it, or use another model."
                )
            else:
                half = len(span.text) // 2
                halves = (Span(span.text[:half], False), Span(span.text[half:], False))
                yield from self._span_by_span(halves, at_start=at_start)
            at_start = False

    def _render(self, chat: Chat) -> list[Span]:
        """Render a chat by the chat template, and return the spans. The template's own text is trusted."""
        if not self.takes_chat:
            raise MissingAbility(
                f"model {self._name!r} has no chat template: use a raw prompt (--set layout=raw), or an "
                "instruction-tuned model."
            )
        spans: list[Span] = []
        turns = chat.turns if self._takes_system else _folded(chat.turns)
        messages = [{"role": turn.role, "content": _hide(turn.parts, spans)} for turn in turns]
        pieces = _PLACEHOLDER.split(self._apply_template(messages))
        missing = {*range(len(spans))}.difference(map(int, pieces[1::2]))
        if missing:
            raise InputError(
                f"the chat template of model {self._name!r} leaves out {spans[min(missing)].text[:60]!r}: "
                "give the turns in an order and with roles that the model takes."
            )
        return [spans[int(piece)] if index % 2 else Span(piece) for index, piece in enumerate(pieces)]

    @cached_property
    def _takes_system(self) -> bool:
        """True if the template takes a system turn. Some templates refuse it, and others leave it out."""
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
        if isinstance(source, dict):  # several templates, by name
            source = source.get("default") or next(iter(source.values()))
        return ChatTemplate(source, self._tokenizer.special_tokens_map | self.thinking.variables)


def _folded(turns: Sequence[Turn]) -> Sequence[Turn]:
    """Return the turns, with a leading system turn merged into the next user turn as its first paragraph."""
    match turns:
        case [Turn("system", instructions), Turn("user", question), *others]:
            return [Turn("user", (*instructions, Span("\n\n"), *question)), *others]
    return turns


def _hide(parts: Sequence[Span], spans: list[Span]) -> str:
    """Return a turn's content with a placeholder for each span, and append the spans to `spans`.

    White space around a span stays outside of the placeholder, so that a template that strips its turns still
    removes this white space.
    """
    content = ""
    for part in parts:
        core = part.text.strip()
        if core:
            before, _, after = part.text.partition(core)
            content += f"{before}\ue000{len(spans)}\ue001{after}"
            spans.append(Span(core, part.trusted))
        else:
            content += part.text
    return content


def _count(text: str, string: str) -> int:
    """Return how often a string occurs in a text, overlapping occurrences included."""
    return len(re.findall(f"(?={re.escape(string)})", text))


def chat_template_digest(tokenizer: Any) -> str:
    """Return a digest of a tokenizer's chat template: 32 hexadecimal digits.

    A tokenizer without a chat template has a digest, too.
    """
    template = json.dumps(getattr(tokenizer, "chat_template", None), sort_keys=True)
    return blake2b(template.encode(), digest_size=16).hexdigest()
