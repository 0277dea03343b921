"""How one model reads text: whoever runs it and whoever trains it make the same ids."""

import json
from hashlib import blake2b
from typing import Any

from askance.core.errors import ModelSpecError
from askance.core.types import Prompt, Span, TokenIds
from askance.models.local.prompt import PromptEncoder
from askance.models.local.vocabulary import Vocabulary

_DIGEST_BYTES = 16


class Encoding:
    """The tokenizer of a model with what the model itself says about it.

    Args:
        end_ids: the ids that end a text.
        size: number of ids the model knows.

    Attributes:
        vocabulary: ids to text, control strings, single tokens.
        prompts: parts and whole prompts to ids.
        template_digest: of the chat template.
    """

    def __init__(self, tokenizer: Any, name: str, *, end_ids: frozenset[int], size: int) -> None:
        self.vocabulary = Vocabulary(tokenizer, name, end_ids=end_ids, size=size)
        self.prompts = PromptEncoder(tokenizer, self.vocabulary, name)
        self.template_digest = chat_template_digest(tokenizer)
        self._name, self._end_id, self._tokenizer = name, tokenizer.eos_token_id, tokenizer

    @property
    def fingerprint(self) -> str:
        """What tells how this model reads text and lays out prompts from how others do."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        reads = backend.to_str() if backend is not None else repr(sorted(self._tokenizer.get_vocab().items()))
        control, ends = sorted(self.vocabulary.control.items()), sorted(self.end_ids)
        whole = repr((reads, control, ends, self.template_digest))
        return blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    @property
    def end_ids(self) -> frozenset[int]:
        """The ids that end a text."""
        return self.vocabulary.end_ids

    @property
    def end_id(self) -> int:
        """The one that a model is taught to end its texts with.

        Raises:
            ModelSpecError: the tokenizer has none.
        """
        if self._end_id is None:
            raise ModelSpecError(
                f"the tokenizer of {self._name!r} names no end token, so its model can't be taught where "
                "to stop: set eos_token in its tokenizer_config.json."
            )
        return int(self._end_id)

    def prompt_ids(self, prompt: Prompt) -> TokenIds:
        """The prompt as the model sees it; see `PromptEncoder.encode`."""
        return self.prompts.encode(prompt)

    def text_ids(self, text: str) -> TokenIds:
        """Plain text as the model writes it after a prompt: no BOS, no space in front, nothing is control."""
        return self.prompts.parts((Span(text, trusted=False),), at_start=False)


def chat_template_digest(tokenizer: Any) -> str:
    """What tells one chat template from another, also from none: 32 hexadecimal digits."""
    template = json.dumps(getattr(tokenizer, "chat_template", None), sort_keys=True)
    return blake2b(template.encode(), digest_size=_DIGEST_BYTES).hexdigest()
