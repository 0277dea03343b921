"""Where two courses of one question part, and how near the numbers were that decided it.

A course is what a method did, in order, as records of these kinds:

- ``{"kind": "write", "prompt": …, "tokens": […]}``, where a token has ``id``, ``text``, ``entropy`` (nats)
  and ``top``, the most probable tokens there as pairs of text and log-probability (nats), best first;
- ``{"kind": "weigh", "sentences": […]}``, a sentence being pairs of word and score;
- ``{"kind": "decide", "outcome": …, "query": …}``;
- ``{"kind": "answer", "text": …}``, the last one.

Other tokens are no difference yet: much of what is written is thrown away. They are one when another prompt,
decision or answer comes of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Step = Mapping[str, Any]
Top = Sequence[tuple[str, float]]
Gaps = dict[str, list[float]]
"""Absolute differences, where both come to the same: of entropies (nats), of how far tokens that are written
are ahead (nats), of scores.
"""
MAY_EXPLAIN = {"token": "lead", "score": "score"}
"""Which gaps, by what differs."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What came out otherwise first.

    Attributes:
        what: a token, which words are above the threshold, or what is done.
        step: its number, from 1.
        margin: by how much the numbers of the base spoke for its own outcome: how far its token was ahead of
            the other one (nats), or its score from the threshold. None where no number decided.
    """

    what: Literal["token", "score", "step"]
    step: int
    told: str
    margin: float | None = None


def compare(course: Sequence[Step], base: Sequence[Step], threshold: float) -> tuple[Difference | None, Gaps]:
    """The first difference, if there is one, and the gaps of all numbers that are of the same texts."""
    gaps: Gaps = {"entropy": [], "lead": [], "score": []}
    token: Difference | None = None
    score: Difference | None = None
    for number, (our, their) in enumerate(zip(course, base, strict=False), start=1):
        if _outcome(our) != _outcome(their):
            return token or score or Difference(
                "step", number, f"{_told(our)}; the base: {_told(their)}"
            ), gaps
        if our["kind"] == "write":
            token = _in_writing(our, their, number, gaps)
        elif our["kind"] == "weigh" and token is None:
            pairs = [(one, other) for words in _sentences(our, their) for _, one, other in words]
            gaps["score"] += [
                abs(one - other) for one, other in pairs if (one > threshold) == (other > threshold)
            ]
            score = _in_weighing(our, their, number, threshold)
    return None, gaps


def _outcome(step: Step) -> tuple[object, ...]:
    return tuple(step.get(name) for name in ("kind", "prompt", "outcome", "query", "text"))


def _told(step: Step) -> str:
    if step["kind"] == "decide":
        return f"{step['outcome']} {step['query']!r}" if step["query"] else str(step["outcome"])
    return f"{step['kind']} {step['text']!r}" if "text" in step else str(step["kind"])


def _in_writing(our: Step, their: Step, number: int, gaps: Gaps) -> Difference | None:
    for place, (one, other) in enumerate(zip(our["tokens"], their["tokens"], strict=False), start=1):
        gaps["entropy"].append(abs(one["entropy"] - other["entropy"]))
        mine, others = one["top"], other["top"]
        if one["id"] != other["id"]:
            ahead, behind = _lead(mine, others[0][0]), _lead(others, mine[0][0])
            told = f"{mine[0][0]!r} is {ahead:.3f} nats ahead; the base: {others[0][0]!r}, {behind:.3f}"
            return Difference("token", number, f"at token {place} {told}", behind)
        if [text for text, _ in mine[:2]] == [text for text, _ in others[:2]]:
            gaps["lead"].append(abs(_lead(mine) - _lead(others)))
    return None


def _lead(top: Top, over: str | None = None) -> float:
    """How far the best token is ahead of another, or of the second; at least, where the other is not told."""
    others = [logprob for text, logprob in top[1:] if over is None or text == over]
    return top[0][1] - (others[0] if others else top[-1][1])


def _in_weighing(our: Step, their: Step, number: int, threshold: float) -> Difference | None:
    """The first word that only one of the two has above the threshold, up to the first doubtful sentence."""
    for words in _sentences(our, their):
        for word, one, other in words:
            if (one > threshold) != (other > threshold):
                told = f"{word!r} scores {one:.4f}; the base: {other:.4f}; the threshold is {threshold:g}"
                return Difference("score", number, told, abs(other - threshold))
        if any(one > threshold for _, one, _ in words):
            break
    return None


def _sentences(our: Step, their: Step) -> Iterator[list[tuple[str, float, float]]]:
    """Of the same text: each sentence's words with both scores."""
    for mine, others in zip(our["sentences"], their["sentences"], strict=True):
        yield [(word, one, other) for (word, one), (_, other) in zip(mine, others, strict=True)]
