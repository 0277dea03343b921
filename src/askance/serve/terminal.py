"""The trace of a question on a terminal: decisions scroll by, the answer grows below them."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from askance.ask import models_told
from askance.core.events import UPPER_BOUND
from askance.core.trace import (
    Answered,
    AnyEvent,
    Asked,
    Committed,
    Decided,
    Drafted,
    Expanded,
    Failed,
    Generated,
    Noted,
    Searched,
    Uncited,
    WordSignal,
)
from askance.core.types import Answer, Hit, Question, Usage
from askance.methods.plain_trace import quotable
from askance.serve.search_tree import search_trees, tree_block
from askance.text.markers import Plain, plain
from askance.text.printable import printable_record

STRONG, WEAK, SURE, PROVISIONAL, QUERY = "bold red", "yellow", "green", "dim", "cyan"


class LiveView:
    """A trace listener that shows a question being answered. Use it as a context manager.

    On a terminal the answer so far stands at the bottom, commits plain and the draft dim; elsewhere only
    finished blocks are printed.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._committed, self._draft = "", ""
        self._quotable: list[AnyEvent] = []
        self._failed: Failed | None = None
        self._live = (
            Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None
        )

    def __enter__(self) -> "LiveView":
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
        if error is not None and self._committed.strip():
            self._console.print(Text(_plain(self._committed, self._quotable).text.strip()))

    def __call__(self, event: AnyEvent) -> None:
        """Show one event. An error is shown once something follows: the last one is told by who asked. What
        calls note is told on standard error, where the growing answer makes room for it.
        """
        event = printable_record(event)
        before, self._failed = self._failed, event if isinstance(event, Failed) else None
        if before is not None:
            self._console.print(event_block(before))
        if isinstance(event, Asked | Searched):
            self._quotable.append(event)
        if isinstance(event, Drafted):
            self._draft += event.text
        elif isinstance(event, Committed):
            self._committed, self._draft = self._committed + event.text, ""
        elif isinstance(event, Answered):
            self._committed = ""
        elif isinstance(event, Searched):
            self._draft = ""
        block = event_block(event, self._quotable)
        if block is not None and not isinstance(event, Generated | Committed | Failed | Noted):
            self._console.print(block, soft_wrap=isinstance(event, Answered) and not self._live)
        if self._live:
            self._live.update(Group() if isinstance(event, Noted) else self._growing(), refresh=True)

    def _growing(self) -> Text:
        """The answer so far and the draft, as many of the last lines as the terminal can redraw."""
        written = _plain(self._committed + self._draft, self._quotable)
        text, draft = Text(written.text), written.offset(len(self._committed))
        text.stylize(PROVISIONAL, draft)
        text = text[len(written.text) - len(written.text.lstrip()) :]
        lines = text.wrap(self._console, self._console.width)
        return Text("\n").join(lines[-max(1, self._console.height - 2) :])


def print_trace(events: Iterable[AnyEvent], console: Console) -> None:
    """A whole recorded trace, one block an event; steps that make a tree are one, where the last is."""
    shown = [printable_record(event) for event in events]
    trees = search_trees(shown)
    last_of = {tree.steps[-1].id: tree for tree in trees}
    in_trees = {step.id for tree in trees for step in tree.steps}
    for at, event in enumerate(shown):
        if event.id in last_of:
            console.print(tree_block(last_of[event.id]))
        block = None if event.id in in_trees else event_block(event, shown[:at])
        if block is not None:
            console.print(block)


def event_block(event: AnyEvent, before: Sequence[AnyEvent] = ()) -> RenderableType | None:
    """What one event looks like; None for events that are not shown.

    Args:
        before: those before it, which say what an answer may quote.
    """
    if isinstance(event, Asked):
        return _asked(event)
    if isinstance(event, Decided):
        return _decided(event)
    if isinstance(event, Searched):
        return _searched(event)
    if isinstance(event, Expanded):
        return _expanded(event)
    if isinstance(event, Generated):
        return _generated(event)
    if isinstance(event, Committed):
        return _labelled("commit", Text(_plain(event.text, before).text.strip()))
    if isinstance(event, Uncited):
        return _labelled("uncited", Text(f"{event.text}\n{event.why}", style=PROVISIONAL))
    if isinstance(event, Answered):
        return _answered(event.answer, event.usage, before)
    if isinstance(event, Noted):
        return _labelled("note", Text(f"{event.place}: {event.text}", style=WEAK))
    if isinstance(event, Failed):
        return _labelled(
            "error", Text(f"{event.place}: {event.message or event.error}", style=STRONG), STRONG
        )
    return None


def usage_line(usage: Usage) -> str:
    """One line of cost."""
    searches = f"{usage.searches} search{'' if usage.searches == 1 else 'es'}"
    at_most = "≤ " if usage.is_upper_bound else ""
    return (
        f"{searches} · {at_most}{usage.prompt_tokens:,} prompt tokens ({usage.reused_tokens:,} reused) · "
        f"{usage.generated_tokens:,} generated · {usage.seconds:.1f} s"
    )


def spending_line(numbers: Mapping[str, float]) -> str:
    """One line of what a search read and did; L_max and L_total are what papers call limit and sum."""
    names = {"l_max": "L_max", "tokens": "L_total"}
    at_most = "≤ " if UPPER_BOUND in numbers else ""
    signs = {name: at_most for name in numbers if "tokens" in name}
    told = {name: value for name, value in numbers.items() if name != UPPER_BOUND}
    return " · ".join(
        f"{names.get(name, name)} {signs.get(name, '')}{value:,.0f}" for name, value in told.items()
    )


def _asked(event: Asked) -> RenderableType:
    models = models_told(event.models, event.precisions)
    setting = " · ".join(part for part in (event.title, models, event.retriever) if part)
    return Group(Text(event.text, style="bold"), Text(setting, style=PROVISIONAL), Text(""))


def _decided(event: Decided) -> RenderableType:
    if event.name == "budget" and event.numbers:
        return _labelled("budget", Text(spending_line(event.numbers), style=PROVISIONAL))
    is_search = event.outcome == "search"
    why = Text(event.why, style=PROVISIONAL)
    if not event.words:
        return _labelled("why", why)
    judged = Group(_words(event.words, event.threshold), why)
    return _labelled("doubt", judged, STRONG) if is_search else _labelled("keep", judged, SURE)


def _words(words: Iterable[WordSignal], threshold: float | None) -> Text:
    """The judged words; doubtful ones with their number, coloured by its distance to the threshold."""
    text = Text()
    for word in words:
        text.append(" " if text.plain else "")
        if word.is_hit:
            style = _doubt_style(word.value, threshold)
            text.append(word.text, style=style).append(f"({word.value:.2f})", style=f"{style} dim")
        else:
            text.append(word.text)
    return text


def _doubt_style(value: float, threshold: float | None) -> str:
    if threshold is None:
        return STRONG
    beyond = abs(value - threshold) / max(abs(value), abs(threshold), 1e-9)
    return STRONG if beyond > 0.5 else WEAK


def _searched(event: Searched) -> RenderableType:
    found = [_hit(hit) for hit in event.hits] or [Text("nothing found", style=PROVISIONAL)]
    return _labelled("search", Group(Text(event.query, style=QUERY), *found), QUERY)


def _hit(hit: Hit) -> Text:
    text = Text(f"{hit.rank}. ", no_wrap=True, overflow="ellipsis")
    text.append(" ".join(hit.passage.title.split()), style="bold").append(f" {hit.score:.1f}  ")
    return text.append(" ".join(hit.passage.text.split()), style=PROVISIONAL)


def _expanded(event: Expanded) -> RenderableType:
    head = Text(f"{event.node} {event.action}", style="bold", no_wrap=True, overflow="ellipsis")
    if event.passage is not None:
        head.append(f"  {' '.join(event.passage.passage.title.split())}", style=PROVISIONAL)
    numbers = Text(" · ".join(f"{name} {value:.2f}" for name, value in event.numbers.items()), style=QUERY)
    lines = [head, Text(event.text.strip() or "(nothing)"), numbers]
    if event.rejected:
        lines.append(Text(f"rejected: {event.rejected}", style=WEAK))
    return _labelled("try", Group(*lines))


def _generated(event: Generated) -> RenderableType:
    at_most = "≤ " if event.is_upper_bound else ""
    tokens = f"{at_most}{event.prompt_tokens:,} + {event.generated_tokens:,} tokens"
    cost = f"{tokens}, {event.seconds:.1f} s, {event.finish}"
    key = " ".join(map(str, event.key))
    return _labelled("write", Group(Text(event.text.strip()), Text(f"{key}: {cost}", style=PROVISIONAL)))


def _answered(answer: Answer, usage: Usage, before: Sequence[AnyEvent]) -> RenderableType:
    lines: list[Text] = [Text(""), _cited_text(answer, before)]
    if answer.short and answer.short != answer.text:
        lines += [Text().append("Answer: ", style="bold").append(answer.short, style=f"bold {SURE}")]
    sources = {citation.number: citation.passage for citation in answer.citations}
    for number, passage in sorted(sources.items()):
        line = Text().append(f"[{number}] ", style=QUERY).append(passage.title, style="bold")
        lines.append(line.append(f"  {passage.source}", style=PROVISIONAL))
    return Group(*lines, Text(""), Text(usage_line(usage), style=PROVISIONAL))


def _cited_text(answer: Answer, before: Sequence[AnyEvent]) -> Text:
    written, text, at = _plain(answer.text, before), Text(), 0
    for citation in answer.citations:
        end = written.offset(citation.end)
        text.append(written.text[at:end]).append(f" [{citation.number}]", style=QUERY)
        at = end
    return text.append(written.text[at:])


def _plain(text: str, before: Sequence[AnyEvent]) -> Plain:
    """What a model wrote, and the markers in it: in profile "code" they stay in text and answer."""
    asked = next((event for event in before if isinstance(event, Asked)), None)
    question = Question(asked.question_id, asked.text, options=asked.options) if asked else Question("", "")
    return plain(text, lambda: quotable(question, before))


def _labelled(label: str, content: RenderableType, style: str = PROVISIONAL) -> RenderableType:
    """Content beside a label in a narrow column."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=7)
    grid.add_column(ratio=1)
    grid.add_row(Text(label, style=style), content)
    return grid
