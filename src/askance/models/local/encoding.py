"""How one model reads text: whoever runs it and whoever trains it make the same ids."""

import json
from hashlib import blake2b
from typing import Any

from askance.core.errors import ModelSpecError
from askance.core.types import Span, TokenIds
from askance.models.local.prompt import PromptEncoder
from askance.models.local.vocabulary import Vocabulary


class Encoding(PromptEncoder):
    """The tokenizer of a model with what the model itself says about it.

    Args:
        end_ids: the ids that end a text.
        size: number of ids the model knows.

    Attributes:
        vocabulary: ids to text, control strings, single tokens.
    """

    def __init__(self, tokenizer: Any, name: str, *, end_ids: frozenset[int], size: int) -> None:
        self.vocabulary = Vocabulary(tokenizer, name, end_ids=end_ids, size=size)
        super().__init__(tokenizer, self.vocabulary, name)

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

    def text_ids(self, text: str) -> TokenIds:
        """Plain text as the model writes it after a prompt: no BOS, no space in front, nothing is control."""
        return self.parts((Span(text, trusted=False),), at_start=False)


def chat_template_digest(tokenizer: Any) -> str:
    """What tells one chat template from another, also from none: 32 hexadecimal digits."""
    template = json.dumps(getattr(tokenizer, "chat_template", None), sort_keys=True)
    return blake2b(template.encode(), digest_size=16).hexdigest()
