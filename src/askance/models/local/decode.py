"""What is done with the logits: samples that are written token by token, options that are scored."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from askance.core.types import GenerateRequest, Generation, Scored, Token, TokenIds
from askance.models.local.choosing import Chooser, Reading, Row, read
from askance.models.local.detokenise import Detokeniser
from askance.models.local.vocabulary import Vocabulary
from askance.runtime.backend import Fed
from askance.runtime.writing import Writing


@dataclass(frozen=True, slots=True)
class Job:
    """One call of `generate`, checked and with its prompt as ids."""

    prompt_ids: TokenIds
    named_ids: TokenIds
    request: GenerateRequest
    model_name: str


class Sample:
    """A `Request` for one text of a job."""

    num_logits = 1

    def __init__(self, vocabulary: Vocabulary, job: Job, number: int) -> None:
        asked = self._asked = job.request
        self.ids = list(job.prompt_ids)
        self.max_tokens = len(job.prompt_ids) + asked.sampling.max_tokens
        self.wants_attention = asked.want.attention is not None
        self.is_abandoned = False
        self._vocabulary, self._job, self._num_reused = vocabulary, job, 0
        self._chooser = Chooser(asked.sampling, asked.key, number, job.model_name)
        self._writing = Writing(asked.sampling, asked.until, asked.watch if number == 0 else None)
        self._detokeniser = Detokeniser(vocabulary, job.prompt_ids)

    def take(self, fed: Fed, num_reused: int) -> bool:
        """Choose the next token, and give it with its signals to the text."""
        self._num_reused = num_reused
        if fed.attention and self._asked.want.attention is not None:
            row = _over_heads(fed.attention[-1], self._asked.want.attention)
            self._writing.tokens[-1] = replace(self._writing.tokens[-1], attention=row)
        last: Row = fed.logits[-1]
        token_id = self._chooser.choose(last)
        self._append(token_id, read(last, token_id, self._asked.want, self._job.named_ids))
        self.ids.append(token_id)
        return not self._writing.is_finished

    def generation(self) -> Generation:
        """What was written."""
        prompt_ids = self._job.prompt_ids
        return self._writing.generation(prompt_ids, len(prompt_ids), self._num_reused)

    def _append(self, token_id: int, reading: Reading) -> None:
        tokens, detokeniser = self._writing.tokens, self._detokeniser
        top = tuple((detokeniser.peek(id), logprob) for id, logprob in reading.top)
        is_end = token_id in self._vocabulary.end_ids
        text = "" if is_end else detokeniser.add(token_id)
        if not is_end and len(tokens) + 1 == self._asked.sampling.max_tokens:
            text += detokeniser.flush()
        start = tokens[-1].end if tokens else 0
        token = Token(
            token_id, text, start, start + len(text), reading.logprob, reading.entropy, top, reading.probs
        )
        if is_end:
            self._writing.end(token)
        else:
            self._writing.add(token)


class Options:
    """A `Request` for the log-probabilities of options after a prompt: what follows it is one row for all.

    Args:
        options: what stands before the last token of each is the beginning of the first.
    """

    wants_attention = False

    def __init__(self, prompt_ids: TokenIds, options: Sequence[TokenIds]) -> None:
        self.ids = [*prompt_ids, *options[0][:-1]]
        self.max_tokens, self.num_logits = len(self.ids), len(options[0])
        self.is_abandoned = False
        self.scored: Sequence[Scored] = ()
        self._options = options

    def take(self, fed: Fed, num_reused: int) -> bool:
        """Sum up (nats); there is nothing to go on with."""
        rows: Sequence[Row] = fed.logits
        self.scored = [
            Scored(sum(row.logprob(id) for row, id in zip(rows, ids, strict=False)), len(ids))
            for ids in self._options
        ]
        return False


def _over_heads(row: NDArray[np.float32], how: Literal["mean", "max", "heads"]) -> NDArray[np.float32]:
    """The weights of one token, shape [heads, tokens], as they are wanted."""
    found: NDArray[np.float32] = (
        row if how == "heads" else row.mean(axis=0) if how == "mean" else row.max(axis=0)
    )
    return found
