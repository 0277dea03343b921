"""Log-probabilities of options, from the endpoint that repeats its prompt with those of each token."""

from collections.abc import Sequence
from itertools import accumulate

from askance.core.types import Raw, Scored, untrusted
from askance.models.openai.events import Entry, Unusable, read_event
from askance.models.openai.texts import plain


def score_request(model: str, prompt: Raw, option: str) -> dict[str, object]:
    """The body of one request.

    One token is written behind, since some servers want to write; and what is told of it shows whether
    log-probabilities stand beside the tokens that they belong to.
    """
    return {
        "model": model,
        "prompt": whole(prompt, option),
        "max_tokens": 1,
        "min_tokens": 1,
        "temperature": 0,
        "echo": True,
        "logprobs": 1,
    }


def whole(prompt: Raw, option: str = "") -> str:
    """The text of a prompt with an option behind it."""
    return plain((*prompt.parts, *prompt.continuation, untrusted(option)))


def read_score(answer: object, prompt: Raw, option: str) -> Scored:
    """The log-probability of the option in what the server repeated.

    Raises:
        Unusable: it did not repeat the prompt with log-probabilities, these belong to other tokens, or one
            token belongs to both.
    """
    event = read_event(answer)
    entries = event.entries
    if entries is None:
        raise Unusable("no log-probabilities of the prompt")
    before, text = whole(prompt), whole(prompt, option)
    told = "".join(entry.text for entry in entries)
    # A beginning of the text that is a control token is told as one.
    at = told.find(text)
    if at < 0:
        raise Unusable(f"not the prompt that it was to repeat, but {told[:80]!r}")
    behind = event.text.removeprefix(text) if event.text.startswith(text) else ""
    if behind and len(told) == at + len(text):
        # llama-cpp-python does so with models without BOS: each token has what belongs to the next one.
        raise Unusable(f"log-probabilities that are moved by one token: none for {behind!r}, which it wrote")
    return _sum(entries, at + len(before), at + len(text))


def _sum(entries: Sequence[Entry], begin: int, end: int) -> Scored:
    ends = list(accumulate(len(entry.text) for entry in entries))
    starts = [0, *ends[:-1]]
    within = [at for at in range(len(entries)) if starts[at] < end and ends[at] > begin]
    if not within or starts[within[0]] < begin or ends[within[-1]] > end:
        raise Unusable("a token that belongs to the prompt and to the option that follows it")
    return Scored(sum(entries[at].logprob for at in within), len(within))
