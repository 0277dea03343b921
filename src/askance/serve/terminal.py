"""The events of a trace as blocks of text, one below the other."""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from askance.ask import models_told
from askance.core.trace import (
    UPPER_BOUND,
    Answered,
    AnyEvent,
    Asked,
    Committed,
    Decided,
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
from askance.serve.legend import ACTIONS, Legend
from askance.serve.search_tree import search_trees, step_numbers, tree_block
from askance.text.markers import Plain, plain
from askance.text.printable import printable_record

STRONG, WEAK, SURE, PROVISIONAL, QUERY, LEGEND = "bold red", "yellow", "green", "dim", "cyan", "dim italic"


def print_trace(events: Iterable[AnyEvent], console: Console) -> None:
    """A whole recorded trace, one block an event; steps that make a tree are one, where the last is."""
    shown = [printable_record(event) for event in events]
    trees = search_trees(shown)
    last_of = {tree.steps[-1].id: tree for tree in trees}
    in_trees = {step.id for tree in trees for step in tree.steps}
    legend = Legend()
    for at, event in enumerate(shown):
        if event.id in last_of:
            tree = last_of[event.id]
            console.print(tree_block(tree))
            print_legend([line for step in tree.steps for line in legend(step)], console)
        elif event.id not in in_trees:
            block = event_block(event, shown[:at])
            if block is not None:
                console.print(block)
            print_legend(legend(event), console)


def print_legend(lines: Sequence[str], console: Console) -> None:
    """What the terms of the block above mean."""
    if lines:
        console.print(_labelled("legend", Text("\n".join(lines), style=LEGEND), LEGEND))


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
        return _labelled("commit", Text(shown_plain(event.text, before).text.strip()))
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
    return Group(Text(event.text, style="bold"), setting_block(event))


def setting_block(event: Asked) -> RenderableType:
    """The method, the models and what is searched."""
    models = models_told(event.models, event.precisions)
    setting = " · ".join(part for part in (event.title, models, event.retriever) if part)
    return Group(Text(setting, style=PROVISIONAL), Text(""))


def _decided(event: Decided) -> RenderableType:
    if event.name == "budget" and event.numbers:
        return _labelled("budget", Text(spending_line(event.numbers), style=PROVISIONAL))
    why = Text(event.why, style=PROVISIONAL)
    if event.name == "choose":
        scores = " · ".join(f"{name} ({score:.2f})" for name, score in event.numbers.items())
        lines = [Text(event.outcome), why, *([Text(scores, style=PROVISIONAL)] if scores else [])]
        return _labelled("choose", Group(*lines), SURE)
    is_search = event.outcome == "search"
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
    text.append(" ".join(hit.passage.title.split()), style="bold").append(f" {hit.score:.3g}  ")
    return text.append(" ".join(hit.passage.text.split()), style=PROVISIONAL)


def _expanded(event: Expanded) -> RenderableType:
    action = ACTIONS.get(event.action, event.action)
    head = Text(f"{event.node} {action}", style="bold", no_wrap=True, overflow="ellipsis")
    if event.passage is not None:
        head.append(f"  {' '.join(event.passage.passage.title.split())}", style=PROVISIONAL)
    numbers = Text(" · ".join(step_numbers(event)), style=QUERY)
    lines = [head, Text(event.text.strip() or "(nothing)"), numbers]
    if event.rejected:
        lines.append(Text(f"rejected: {event.rejected}", style=WEAK))
    return _labelled("try", Group(*lines))


def _generated(event: Generated) -> RenderableType:
    at_most = "≤ " if event.is_upper_bound else ""
    tokens = f"{at_most}{event.prompt_tokens:,} tokens read, {event.generated_tokens:,} written"
    cost = f"{tokens}, {event.seconds:.1f} s, {event.finish}"
    key = " ".join(ACTIONS.get(str(part), str(part)) for part in event.key)
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
    written, text, at = shown_plain(answer.text, before), Text(), 0
    for citation in answer.citations:
        end = written.offset(citation.end)
        text.append(written.text[at:end]).append(f" [{citation.number}]", style=QUERY)
        at = end
    return text.append(written.text[at:])


def shown_plain(text: str, before: Sequence[AnyEvent]) -> Plain:
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
