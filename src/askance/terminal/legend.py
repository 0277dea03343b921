"""The legend of a trace, which explains each term where it first appears."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from askance.core.trace import AnyEvent, Asked, Decided, Expanded, Searched

TERMS: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
"""The meanings of the terms by table and term."""
ACTIONS, _DOES, _SIGNALS, _NUMBERS, _SPENT, _SCORES = TERMS.values()
"""The tables of `legend.toml`, in the order of the file."""


class Legend:
    """A legend that explains each term of one trace once."""

    def __init__(self) -> None:
        self._known = set[str]()
        self._retriever = ""

    def __call__(self, event: AnyEvent) -> list[str]:
        """Return the explanations of the terms that an event is the first to use."""
        if isinstance(event, Asked):
            self._retriever = event.retriever.partition(" ")[0]
        explanations = dict(self._terms(event))
        new = [term for term in explanations if term not in self._known]
        self._known.update(new)
        return [explanations[term] for term in new]

    def _terms(self, event: AnyEvent) -> Iterator[tuple[str, str]]:
        if isinstance(event, Searched) and event.hits and self._retriever in _SCORES:
            yield "hit", f"number after a title: {_SCORES[self._retriever]}"
        elif isinstance(event, Decided):
            yield from _decision_terms(event)
        elif isinstance(event, Expanded):
            yield "node", f"{event.node}: a node of the tree; {event.node}.1 is its first child"
            if event.action in _DOES:
                yield event.action, f"{ACTIONS[event.action]}: {_DOES[event.action]}"
            yield from ((name, f"{name}: {_NUMBERS[name]}") for name in event.numbers if name in _NUMBERS)


def _decision_terms(event: Decided) -> Iterator[tuple[str, str]]:
    if event.words and event.threshold is not None:
        side = "at most" if event.signal == "token probability" else "above"
        meaning = _SIGNALS.get(event.signal, event.signal)
        yield (
            event.signal,
            f"(number) after a word: {meaning}; in doubt {side} the threshold {event.threshold:g}",
        )
    if event.name == "budget":
        yield from ((name, meaning) for name, meaning in _SPENT.items() if name in event.numbers)
    if event.name == "choose" and event.numbers:
        yield "choose", "(number) after a candidate: its score among the candidates"
