"""Display of traces: events as blocks of text, a tree search as a tree, and a legend of the terms."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from askance.ask import describe_models
from askance.core import trace
from askance.core.answers import NOT_IN_DOCUMENTS, UNSUPPORTED, UPPER_BOUND, Usage
from askance.core.safe_text import printable_record
from askance.core.types import Question
from askance.methods.common.answer_text import quotable_texts
from askance.text.markers import UnmarkedText, without_markers

STRONG, WEAK, SURE, PROVISIONAL, QUERY, LEGEND = "bold red", "yellow", "green", "dim", "cyan", "dim italic"
TERMS: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("legend.toml").read_text(encoding="utf-8")
)
"""The meanings of the terms by table and term."""
ACTIONS, _DOES, _SIGNALS, _NUMBERS, _SPENT, _SCORES = TERMS.values()
"""The tables of `legend.toml`, in the order of the file."""
Before = Sequence[trace.AnyEvent]
_ROOT = "0"
_LEAST_TREE_WIDTH, _LEVEL_WIDTH = 24, 4
_MOST_REASONS = 20
"""The number of unsupported sentences of an answer of which the reason is shown."""


def print_trace(events: Iterable[trace.AnyEvent], console: Console) -> None:
    """Print a recorded trace, as a block for each event and one block for all steps of a tree search."""
    shown = [printable_record(event) for event in events]
    trees = search_trees(shown)
    last_of = {tree.steps[-1].id: tree for tree in trees}
    in_trees = {step.id for tree in trees for step in tree.steps}
    legend = Legend()
    for index, event in enumerate(shown):
        if event.id in last_of:
            tree = last_of[event.id]
            console.print(_tree_block(tree))
            legend.show(console, *tree.steps)
        elif event.id not in in_trees:
            block = event_block(event, shown[:index])
            if block is not None:
                console.print(block)
            legend.show(console, event)


class Legend:
    """A legend that explains each term of one trace once."""

    def __init__(self) -> None:
        self._meanings: dict[str, str] = {}
        self._retriever = ""

    def __call__(self, *events: trace.AnyEvent) -> list[str]:
        """Return the explanations of the terms that events are the first to use."""
        num_known = len(self._meanings)
        for event in events:
            for term, meaning in self._terms(event):
                self._meanings.setdefault(term, meaning)
        return [*self._meanings.values()][num_known:]

    def show(self, console: Console, *events: trace.AnyEvent) -> None:
        """Print the explanations of the terms that events are the first to use."""
        if lines := self(*events):
            console.print(_labelled("legend", Text("\n".join(lines), style=LEGEND), LEGEND))

    def _terms(self, event: trace.AnyEvent) -> Iterator[tuple[str, str]]:
        if isinstance(event, trace.Asked):
            self._retriever = event.retriever.partition(" ")[0]
        elif isinstance(event, trace.Searched) and event.hits and self._retriever in _SCORES:
            yield "hit", f"number after a title: {_SCORES[self._retriever]}"
        elif isinstance(event, trace.Expanded):
            yield "node", f"{event.node}: a node of the tree; {event.node}.1 is its first child"
            if event.action in _DOES:
                yield event.action, f"{ACTIONS[event.action]}: {_DOES[event.action]}"
            yield from ((name, f"{name}: {_NUMBERS[name]}") for name in event.numbers if name in _NUMBERS)
        elif isinstance(event, trace.Decided):
            if event.words and event.threshold is not None:
                side = "at most" if event.signal == "token probability" else "above"
                doubt = f"in doubt {side} the threshold {event.threshold:g}"
                meaning = _SIGNALS.get(event.signal, event.signal)
                yield event.signal, f"(number) after a word: {meaning}; {doubt}"
            if event.name == "budget":
                yield from ((name, meaning) for name, meaning in _SPENT.items() if name in event.numbers)
            if event.name == "choose" and event.numbers:
                yield "choose", "(number) after a candidate: its score among the candidates"
        elif isinstance(event, trace.Answered) and event.answer.unsupported:
            yield UNSUPPORTED, f"{UNSUPPORTED} after a sentence: no passage supports it"


def event_block(event: trace.AnyEvent, before: Sequence[trace.AnyEvent] = ()) -> RenderableType | None:
    """Return the block that shows an event, or None for events that are not shown.

    Args:
        before: The events before `event`, which hold the texts that an answer may quote.
    """
    block_of = _BLOCKS.get(type(event))
    return None if block_of is None else block_of(event, before)


def usage_line(usage: Usage) -> str:
    """Return a line with the cost of an answer."""
    searches = f"{usage.searches} search{'' if usage.searches == 1 else 'es'}"
    at_most = "≤ " if usage.is_upper_bound else ""
    return (
        f"{searches} · {at_most}{usage.prompt_tokens:,} prompt tokens ({usage.reused_tokens:,} reused) · "
        f"{usage.generated_tokens:,} generated · {usage.seconds:.1f} s"
    )


def spending_line(numbers: Mapping[str, float]) -> str:
    """Return a line with the spending of a tree search, which uses the papers' names L_max and L_total."""
    names = {"l_max": "L_max", "tokens": "L_total"}
    at_most = "≤ " if UPPER_BOUND in numbers else ""
    return " · ".join(
        f"{names.get(name, name)} {at_most if 'tokens' in name else ''}{value:,.0f}"
        for name, value in numbers.items()
        if name != UPPER_BOUND
    )


def setting_block(event: trace.Asked) -> RenderableType:
    """Return a block with the method, the models and the retriever."""
    parts = (event.title, describe_models(event.models, event.precisions), event.retriever)
    return Text(f"{' · '.join(filter(None, parts))}\n", style=PROVISIONAL)


def _decided(event: trace.Decided, _: Before) -> RenderableType:
    why = Text(event.why, style=PROVISIONAL)
    if event.name == "budget" and event.numbers:
        return _labelled("budget", Text(spending_line(event.numbers), style=PROVISIONAL))
    if event.name == "choose":
        scores = " · ".join(f"{name} ({score:.2f})" for name, score in event.numbers.items())
        lines = [Text(event.outcome), why, *([Text(scores, style=PROVISIONAL)] if scores else [])]
        return _labelled("choose", Group(*lines), SURE)
    if not event.words:
        return _labelled("why", why)
    judged = Group(_words(event.words, event.threshold), why)
    label, style = ("doubt", STRONG) if event.outcome == "search" else ("keep", SURE)
    return _labelled(label, judged, style)


def _words(words: Iterable[trace.WordSignal], threshold: float | None) -> Text:
    """Return the scored words. Each word that triggers is followed by its value.

    The colour of the word and the value shows how far the value is from the threshold.
    """
    shown = []
    for word in words:
        style = _doubt_style(word.value, threshold)
        number = (f"({word.value:.2f})", f"{style} dim")
        shown.append(Text.assemble((word.text, style), number) if word.is_hit else Text(word.text))
    return Text(" ").join(shown)


def _doubt_style(value: float, threshold: float | None) -> str:
    if threshold is None:
        return STRONG
    beyond = abs(value - threshold) / max(abs(value), abs(threshold), 1e-9)
    return STRONG if beyond > 0.5 else WEAK


def _searched(event: trace.Searched, _: Before) -> RenderableType:
    lines = []
    for hit in event.hits:
        title, text = (_one_line(hit.passage.title), "bold"), (_one_line(hit.passage.text), PROVISIONAL)
        lines.append(_line(f"{hit.rank}. ", title, f" {hit.score:.3g}  ", text))
    lines = lines or [Text("nothing found", style=PROVISIONAL)]
    return _labelled("search", Group(Text(event.query, style=QUERY), *lines), QUERY)


def _expanded(event: trace.Expanded, _: Before) -> RenderableType:
    title = "" if event.passage is None else f"  {_one_line(event.passage.passage.title)}"
    head = _line((f"{event.node} {ACTIONS.get(event.action, event.action)}", "bold"), (title, PROVISIONAL))
    numbers = Text(" · ".join(_step_numbers(event)), style=QUERY)
    lines = [head, Text(event.text.strip() or "(nothing)"), numbers]
    if event.rejected:
        lines.append(Text(f"rejected: {event.rejected}", style=WEAK))
    return _labelled("try", Group(*lines))


def _generated(event: trace.Generated, _: Before) -> RenderableType:
    at_most = "≤ " if event.is_upper_bound else ""
    tokens = f"{at_most}{event.prompt_tokens:,} tokens read, {event.generated_tokens:,} written"
    cost = f"{tokens}, {event.seconds:.1f} s, {event.finish}"
    key = " ".join(ACTIONS.get(str(part), str(part)) for part in event.key)
    thoughts = [Text(f"thoughts: {event.thoughts}", style=PROVISIONAL)] if event.thoughts else []
    head = Text(event.text.strip())
    return _labelled("write", Group(*thoughts, head, Text(f"{key}: {cost}", style=PROVISIONAL)))


def _answered(event: trace.Answered, before: Before) -> RenderableType:
    answer = event.answer
    written, cited = shown_plain(answer.text, before), Text()
    text, sources = Text(written.text), {each.number: each.passage for each in answer.citations}
    marks = [(written.offset(each.end), f" [{each.number}]", QUERY) for each in answer.citations]
    for each in answer.unsupported:
        start, end = written.offset(each.start), written.offset(each.end)
        text.stylize(WEAK, start, end)
        marks.append((end, f" {UNSUPPORTED}", WEAK))
    marks = [*sorted(marks, key=itemgetter(0)), (len(text), "", "")]
    for piece, (_, mark, style) in zip(text.divide([end for end, *_ in marks[:-1]]), marks, strict=True):
        cited.append_text(piece).append(mark, style=style)
    lines = [Text(""), cited]
    if answer.abstained:
        cited.stylize(PROVISIONAL)
        verdict = Text.assemble((NOT_IN_DOCUMENTS, STRONG), f": {answer.abstained}")
        lines = [Text(""), verdict, *([Text.assemble(("unsupported: ", WEAK), cited)] if cited else [])]
    elif answer.short and answer.short != answer.text:
        lines.append(Text.assemble(("Answer: ", "bold"), (answer.short, f"bold {SURE}")))
    for number, passage in sorted(sources.items()):
        source = (f"  {passage.location}", PROVISIONAL)
        lines.append(Text.assemble((f"[{number}] ", QUERY), (passage.title, "bold"), source))
    ends = {each.end for each in answer.citations}  # the reasons for other sentences are blocks of their own
    for each in [each for each in answer.unsupported if each.end in ends][:_MOST_REASONS]:
        sentence = _one_line(written.text[written.offset(each.start) : written.offset(each.end)])
        lines.append(Text.assemble((f"{UNSUPPORTED} ", WEAK), (f"{sentence} {each.why}", PROVISIONAL)))
    confidence = "" if answer.confidence is None else f"confidence {answer.confidence:.2f} · "
    origin = f"{answer.source} · " if answer.source else ""
    return Group(*lines, Text(""), Text(origin + confidence + usage_line(event.usage), style=PROVISIONAL))


def _committed(event: trace.Committed, before: Before) -> RenderableType:
    return _labelled("commit", Text(shown_plain(event.text, before).text.strip()))


def _failed(event: trace.Failed, _: Before) -> RenderableType:
    told = f"{event.place}: {': '.join(filter(None, (event.error, event.message)))}"
    lines = [Text(told, STRONG), *([Text(event.traceback, PROVISIONAL)] if event.traceback else [])]
    return _labelled("error", Group(*lines), STRONG)


_BLOCKS: dict[type[Any], Callable[[Any, Before], RenderableType]] = {
    trace.Asked: lambda event, _: Group(Text(event.text, style="bold"), setting_block(event)),
    trace.Decided: _decided,
    trace.Searched: _searched,
    trace.Expanded: _expanded,
    trace.Generated: _generated,
    trace.Committed: _committed,
    trace.Uncited: lambda event, _: _labelled("uncited", Text(f"{event.text}\n{event.why}", PROVISIONAL)),
    trace.Answered: _answered,
    trace.Noted: lambda event, _: _labelled("note", Text(f"{event.place}: {event.text}", WEAK)),
    trace.Failed: _failed,
}


def shown_plain(text: str, before: Sequence[trace.AnyEvent]) -> UnmarkedText:
    """Return a model's text without its markers, which methods such as ``single_authors`` keep."""
    asked = next((event for event in before if isinstance(event, trace.Asked)), None)
    question = Question(asked.question_id, asked.text, options=asked.options) if asked else Question("", "")
    return without_markers(text, lambda: quotable_texts(question, before))


def _labelled(label: str, content: RenderableType, style: str = PROVISIONAL) -> RenderableType:
    """Return a grid with a label in a narrow column and the content to the right of it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=7)
    grid.add_column(ratio=1)
    grid.add_row(Text(label, style=style), content)
    return grid


def _line(*parts: str | tuple[str, str]) -> Text:
    """Join strings, some of which have a style, into one line that is cut at the edge of the terminal."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _one_line(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class SearchTree:
    """The steps of a tree search.

    Attributes:
        steps: The steps in the order of the trace; no two have the same node.
        chosen: The node of the chosen answer; empty if the trace does not give it.
    """

    steps: tuple[trace.Expanded, ...]
    chosen: str = ""


def search_trees(events: Sequence[trace.AnyEvent]) -> list[SearchTree]:
    """Return the tree searches of a trace, each with its chosen node.

    Steps with visits and steps without visits belong to different searches, for example AirRAG's search and a
    Self-RAG search within one of its actions. Two steps with the same node also belong to different searches.
    """
    searches: list[dict[str, trace.Expanded]] = []
    for step in (event for event in events if isinstance(event, trace.Expanded)):
        mine = next((each for each in reversed(searches) if _counts(each.values()) == _counts([step])), None)
        if mine is None or step.node in mine:
            mine = {}
            searches.append(mine)
        mine[step.node] = step
    nested = (each for each in searches if any(node.rpartition(".")[0] in each for node in each))
    return [SearchTree(tuple(each.values()), _chosen(each, events)) for each in nested]


def _counts(steps: Iterable[trace.Expanded]) -> bool:
    """Return whether a search counts the visits of its steps."""
    return "visits" in next(iter(steps)).numbers


def _chosen(steps: Mapping[str, trace.Expanded], events: Iterable[trace.AnyEvent]) -> str:
    """Return the chosen node of a search, or an empty string if the trace does not give it.

    A search that counts visits marks the chosen node. After any other search, the next "choose" event of the
    trace names the node.
    """
    if _counts(steps.values()):
        return next((step.node for step in steps.values() if step.numbers.get("chosen")), "")
    last = max(step.id for step in steps.values())
    choices = (event for event in events if isinstance(event, trace.Decided) and event.name == "choose")
    return next((each.outcome for each in choices if each.id > last and each.outcome in steps), "")


def _tree_block(tree: SearchTree) -> RenderableType:
    """Return the block of a tree, in which each step takes two or more lines: text, numbers and remarks."""
    root = Tree(Text(f"tree of {len(tree.steps)} steps", style="bold"), guide_style=PROVISIONAL)
    branches = {_ROOT: root}
    for step in tree.steps:
        above = step.node.rpartition(".")[0]
        while above not in branches:
            above = above.rpartition(".")[0] or _ROOT
        leads_to_chosen = f"{tree.chosen}.".startswith(f"{step.node}.")
        branches[step.node] = branches[above].add(_step_label(step, leads_to_chosen))
    depth = max(step.node.count(".") for step in tree.steps)
    return _Wide(root, _LEAST_TREE_WIDTH + _LEVEL_WIDTH * depth)


@dataclass(frozen=True, slots=True)
class _Wide:
    """A tree with enough width for its deepest step. Text beyond the edge of the terminal is cut off."""

    tree: Tree
    least_width: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self.tree, options.update(width=max(options.max_width, self.least_width)))


def _step_label(step: trace.Expanded, is_chosen: bool) -> RenderableType:
    mark, style = ("✓ ", f"bold {SURE}") if is_chosen else ("", "bold")
    action, text = f"{mark}{ACTIONS.get(step.action, step.action)}", _one_line(step.text) or "(nothing)"
    title = [] if step.passage is None else [_one_line(step.passage.passage.title)]
    numbers = " · ".join((step.node, *_step_numbers(step), *title))
    lines = [_line((action, style), f"  {text}"), _line((numbers, PROVISIONAL))]
    if step.numbers.get("cut"):
        lines.append(_line(("cut: the budget ended it", WEAK)))
    if step.rejected:
        lines.append(_line((f"rejected: {_one_line(step.rejected)}", WEAK)))
    return Group(*lines)


def _step_numbers(step: trace.Expanded) -> Iterator[str]:
    """Yield the counts of the search, then all other numbers with their names."""
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
