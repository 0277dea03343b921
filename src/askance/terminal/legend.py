"""What the terms of a trace mean, told where each first appears on a screen."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from askance.core.trace import AnyEvent, Asked, Decided, Expanded, Searched

_TERMS: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
ACTIONS, _DOES, _SIGNALS, _NUMBERS, _SPENT, _SCORES = _TERMS.values()
"""The tables of `legend.toml`, in its order."""


class Legend:
    """Explains the terms of one trace, each once."""

    def __init__(self) -> None:
        self._known = set[str]()
        self._retriever = ""

    def __call__(self, event: AnyEvent) -> list[str]:
        """What an event needs to be understood, beyond what was told of those before it."""
        if isinstance(event, Asked):
            self._retriever = event.retriever.partition(" ")[0]
        told = dict(self._terms(event))
        new = [term for term in told if term not in self._known]
        self._known.update(new)
        return [told[term] for term in new]

    def _terms(self, event: AnyEvent) -> Iterator[tuple[str, str]]:
        if isinstance(event, Searched) and event.hits and self._retriever in _SCORES:
            yield "hit", f"number behind a title: {_SCORES[self._retriever]}"
        elif isinstance(event, Decided):
            yield from _of_decision(event)
        elif isinstance(event, Expanded):
            yield "node", f"{event.node}: a place in the tree; {event.node}.1 is the first step behind it"
            if event.action in _DOES:
                yield event.action, f"{ACTIONS[event.action]}: {_DOES[event.action]}"
            yield from ((name, f"{name}: {_NUMBERS[name]}") for name in event.numbers if name in _NUMBERS)


def _of_decision(event: Decided) -> Iterator[tuple[str, str]]:
    if event.words and event.threshold is not None:
        side = "at most" if event.signal == "token probability" else "above"
        meaning = _SIGNALS.get(event.signal, event.signal)
        yield (
            event.signal,
            f"(number) behind a word: {meaning}; in doubt {side} the threshold {event.threshold:g}",
        )
    if event.name == "budget":
        yield from ((name, meaning) for name, meaning in _SPENT.items() if name in event.numbers)
    if event.name == "choose" and event.numbers:
        yield "choose", "(number) behind a candidate: its score, by which the verifier compares it"
