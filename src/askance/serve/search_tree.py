"""The tree that a search over answers left in a trace, as indented text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text
from rich.tree import Tree

from askance.core.trace import AnyEvent, Decided, Expanded
from askance.serve.legend import ACTIONS

ROOT = "0"
CHOSEN, FLAG, WEAK = "green", "yellow", "dim"
_LEAST_WIDTH = 24
_LEVEL_WIDTH = 4


@dataclass(frozen=True, slots=True)
class SearchTree:
    """Steps of one search.

    Attributes:
        steps: in the order of the trace; no two have the same place.
        chosen: the place where the answer that was taken ends; empty where the trace does not tell.
    """

    steps: tuple[Expanded, ...]
    chosen: str = ""

    def leads_to_chosen(self, step: Expanded) -> bool:
        """Whether a step is on the path of the answer that was taken."""
        return f"{self.chosen}.".startswith(f"{step.node}.")

    @property
    def depth(self) -> int:
        """Steps of the longest path."""
        return max(step.node.count(".") for step in self.steps)


def search_trees(events: Sequence[AnyEvent]) -> list[SearchTree]:
    """The searches of a trace whose steps lead from one to another, each with what was chosen of it.

    Steps with and without visits belong to different searches, such as AirRAG and a Self-RAG that is one of
    its actions; so do two steps with the same place.
    """
    searches: list[list[Expanded]] = []
    for step in (event for event in events if isinstance(event, Expanded)):
        mine = next((each for each in reversed(searches) if _counts(each[0]) == _counts(step)), None)
        if mine is None or any(each.node == step.node for each in mine):
            searches.append([step])
        else:
            mine.append(step)
    return [SearchTree(tuple(each), _chosen(each, events)) for each in searches if _is_nested(each)]


def tree_block(tree: SearchTree) -> RenderableType:
    """The tree, two lines or more a step: what it gave, and its numbers."""
    root = Tree(Text(f"tree of {len(tree.steps)} steps", style="bold"), guide_style=WEAK)
    branches = {ROOT: root}
    for step in tree.steps:
        above = next(place for place in _places_above(step.node) if place in branches)
        branches[step.node] = branches[above].add(_label(step, tree.leads_to_chosen(step)))
    return _Wide(root, _LEAST_WIDTH + _LEVEL_WIDTH * tree.depth)


@dataclass(frozen=True, slots=True)
class _Wide:
    """A tree with room for its deepest step; what is beyond the terminal's edge is cut off."""

    tree: Tree
    least_width: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self.tree, options.update(width=max(options.max_width, self.least_width)))


def _counts(step: Expanded) -> bool:
    return "visits" in step.numbers


def _is_nested(steps: Iterable[Expanded]) -> bool:
    places = {step.node for step in steps}
    return any(place.rpartition(".")[0] in places for place in places)


def _chosen(steps: Sequence[Expanded], events: Iterable[AnyEvent]) -> str:
    """The step marked as chosen; without marks, the one that the first choice afterwards names."""
    if _counts(steps[0]):
        return next((step.node for step in steps if step.numbers.get("chosen")), "")
    places = {step.node for step in steps}
    choices = (
        event.outcome
        for event in events
        if isinstance(event, Decided) and event.name == "choose" and event.id > steps[-1].id
    )
    return next((place for place in choices if place in places), "")


def _places_above(place: str) -> Iterator[str]:
    """Of the parent, its parent and so on, up to the root."""
    while "." in place:
        place = place.rpartition(".")[0]
        yield place
    yield ROOT


def _label(step: Expanded, is_chosen: bool) -> RenderableType:
    mark, style = ("✓ ", f"bold {CHOSEN}") if is_chosen else ("", "bold")
    head = _line("").append(f"{mark}{ACTIONS.get(step.action, step.action)}", style=style)
    head.append(f"  {' '.join(step.text.split()) or '(nothing)'}")
    lines = [head, _line(" · ".join((step.node, *step_numbers(step))), style=WEAK)]
    if step.passage is not None:
        lines[-1].append(f" · {' '.join(step.passage.passage.title.split())}")
    if step.numbers.get("cut"):
        lines.append(_line("cut: the budget ended it", style=FLAG))
    if step.rejected:
        lines.append(_line(f"rejected: {' '.join(step.rejected.split())}", style=FLAG))
    return Group(*lines)


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def step_numbers(step: Expanded) -> Iterator[str]:
    """What the search counted, then all other numbers by name."""
    numbers = {name: value for name, value in step.numbers.items() if name not in ("cut", "chosen")}
    visits, value = numbers.pop("visits", None), numbers.pop("value", None)
    votes = numbers.pop("votes", 1.0)
    if visits is not None:
        yield f"visits {visits:g}"
    if value is not None and visits:
        yield f"value {value:.2f} (mean {value / visits:.2f})"
    if votes != 1:
        yield f"votes {votes:g}"
    for name, number in numbers.items():
        yield f"{name} {number:.2f}"
