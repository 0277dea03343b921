"""The trace of a question on a terminal: decisions scroll by, the answer grows below them."""

from collections.abc import Iterable
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from askance.core.trace import (
    Answered,
    AnyEvent,
    Asked,
    Committed,
    Decided,
    Drafted,
    Failed,
    Generated,
    Searched,
    WordSignal,
)
from askance.core.types import Answer, Hit, Usage

DOUBTFUL, SURE, PROVISIONAL, QUERY = "bold red", "green", "dim", "cyan"


class LiveView:
    """A trace listener that shows a question being answered. Use it as a context manager.

    On a terminal the answer so far stands at the bottom, commits plain and the draft dim; elsewhere only
    finished blocks are printed.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._committed, self._draft = "", ""
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
            self._console.print(Text(self._committed.strip()))

    def __call__(self, event: AnyEvent) -> None:
        """Show one event."""
        if isinstance(event, Drafted):
            self._draft += event.text
        elif isinstance(event, Committed):
            self._committed, self._draft = self._committed + event.text, ""
        elif isinstance(event, Answered):
            self._committed = ""
        elif isinstance(event, Searched):
            self._draft = ""
        block = event_block(event)
        if block is not None and not isinstance(event, Generated | Committed):
            (self._live.console if self._live else self._console).print(block)
        if self._live:
            text = Text(self._committed.lstrip())
            text.append(self._draft if text.plain else self._draft.lstrip(), style=PROVISIONAL)
            self._live.update(text, refresh=True)


def print_trace(events: Iterable[AnyEvent], console: Console) -> None:
    """A whole recorded trace, one block an event."""
    for event in events:
        block = event_block(event)
        if block is not None:
            console.print(block)


def event_block(event: AnyEvent) -> RenderableType | None:
    """What one event looks like; None for events that are not shown."""
    if isinstance(event, Asked):
        return _asked(event)
    if isinstance(event, Decided):
        return _decided(event)
    if isinstance(event, Searched):
        return _searched(event)
    if isinstance(event, Generated):
        return _generated(event)
    if isinstance(event, Committed):
        return _labelled("commit", Text(event.text.strip()))
    if isinstance(event, Answered):
        return _answered(event.answer, event.usage)
    if isinstance(event, Failed):
        return _labelled("error", Text(f"{event.place}: {event.message or event.error}", style=DOUBTFUL))
    return None


def usage_line(usage: Usage) -> str:
    """One line of cost."""
    searches = f"{usage.searches} search{'' if usage.searches == 1 else 'es'}"
    return (
        f"{searches} · {usage.prompt_tokens:,} prompt tokens ({usage.reused_tokens:,} reused) · "
        f"{usage.generated_tokens:,} generated · {usage.seconds:.1f} s"
    )


def _asked(event: Asked) -> RenderableType:
    models = ", ".join(name if role == "answer" else f"{role}: {name}" for role, name in event.models.items())
    setting = " · ".join(part for part in (event.method, models, event.retriever) if part)
    return Group(Text(event.text, style="bold"), Text(setting, style=PROVISIONAL), Text(""))


def _decided(event: Decided) -> RenderableType:
    lines = [Text(event.why)]
    if event.words:
        lines = [_words(event.words, event.threshold), Text(event.why, style=PROVISIONAL)]
    return _labelled("doubt" if event.outcome == "search" and event.words else event.outcome, Group(*lines))


def _words(words: Iterable[WordSignal], threshold: float | None) -> Text:
    """The judged words; a doubtful one in red with its number."""
    text = Text()
    for word in words:
        text.append(" " if text.plain else "")
        if word.is_hit:
            text.append(f"{word.text}", style=DOUBTFUL).append(f" {word.value:.2f}", style="red")
        else:
            text.append(word.text, style=SURE if threshold is not None else "")
    return text


def _searched(event: Searched) -> RenderableType:
    found = [_hit(hit) for hit in event.hits] or [Text("nothing found", style=PROVISIONAL)]
    return _labelled("search", Group(Text(event.query, style=QUERY), *found))


def _hit(hit: Hit) -> Text:
    text = Text(f"{hit.rank}. ", style=PROVISIONAL).append(hit.passage.title, style="bold not dim")
    return text.append(f"  {hit.score:.2f}  ").append(_shortened(hit.passage.text, 90))


def _generated(event: Generated) -> RenderableType:
    cost = (
        f"{event.prompt_tokens:,} + {event.generated_tokens:,} tokens, {event.seconds:.1f} s, {event.finish}"
    )
    key = " ".join(map(str, event.key))
    return _labelled("write", Group(Text(event.text.strip()), Text(f"{key}: {cost}", style=PROVISIONAL)))


def _answered(answer: Answer, usage: Usage) -> RenderableType:
    lines: list[Text] = [Text(""), _cited_text(answer)]
    if answer.short and answer.short != answer.text:
        lines += [Text("Answer: ", style="bold").append(answer.short, style="bold green")]
    sources = {citation.number: citation.passage for citation in answer.citations}
    for number, passage in sorted(sources.items()):
        lines.append(
            Text(f"[{number}] ", style=QUERY)
            .append(passage.title, style="bold")
            .append(_source(passage.source))
        )
    return Group(*lines, Text(""), Text(usage_line(usage), style=PROVISIONAL))


def _cited_text(answer: Answer) -> Text:
    text, at = Text(), 0
    for citation in answer.citations:
        text.append(answer.text[at : citation.end]).append(f" [{citation.number}]", style=QUERY)
        at = citation.end
    return text.append(answer.text[at:])


def _source(source: str) -> Text:
    return Text(f"  {source}" if source else "", style=PROVISIONAL)


def _shortened(text: str, most_chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most_chars else line[: most_chars - 1] + "…"


def _labelled(label: str, content: RenderableType) -> RenderableType:
    styles = {"doubt": DOUBTFUL, "search": QUERY, "error": DOUBTFUL}
    return Group(Text(label, style=styles.get(label, PROVISIONAL)), Padding(content, (0, 0, 0, 2)))
