"""A live view of a question while it is answered: decisions scroll by, and the answer grows below them."""

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from askance.core import trace
from askance.core.safe_text import printable, printable_record
from askance.terminal.trace_view import PROVISIONAL, Legend, event_block, setting_block, shown_plain

_MOST_UNCITED = 20
"""The number of uncited sentences of an answer that are shown."""


class LiveView:
    """A trace listener that shows a question being answered. Use it as a context manager.

    On a terminal, the last lines show the answer so far, in which the draft is dimmed, or the time spent if
    there is no text yet. If the output is not a terminal, only finished blocks are printed.

    Args:
        legend: The legend, which may already have explained some terms; by default a new one.
        shows_question: Whether the question and its setting (method, models, retriever) are shown.
        ticks: Whether the last lines are redrawn while nothing happens.
    """

    def __init__(
        self,
        console: Console,
        *,
        legend: Legend | None = None,
        shows_question: bool = True,
        ticks: bool = True,
    ) -> None:
        self._console = console
        self._committed = self._draft = ""
        self._began, self._num_calls, self._is_echoed = console.get_time(), 0, False
        self._quotable: list[trace.AnyEvent] = []
        self._num_uncited = 0
        self._failed: trace.Failed | None = None
        self._legend, self._is_over = legend or Legend(), False
        self._grown: tuple[object, Text] = None, Text()
        self._shows_question = shows_question
        live = Live(None, console=console, transient=True, auto_refresh=ticks, get_renderable=self._bottom)
        self._live = live if console.is_terminal else None

    def echo(self, question: str) -> None:
        """Show the question, unless it is shown already. This can be called before a model is loaded."""
        if not self._is_echoed:
            self._console.print(Text(printable(question), style="bold"))
        self._is_echoed = True

    def __enter__(self) -> "LiveView":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        self._is_over = True
        if self._live:
            self._live.stop()
        if error is not None and self._committed.strip():
            self._console.print(Text(shown_plain(self._committed, self._quotable).text.strip()))

    def __call__(self, event: trace.AnyEvent) -> None:
        """Show an event.

        An error is shown only when another event follows, because the caller reports the last error. Notes
        are printed on standard error, above the growing answer.
        """
        event = printable_record(event)
        before, self._failed = self._failed, event if isinstance(event, trace.Failed) else None
        if before is not None:
            self._console.print(event_block(before))
        self._follow(event)
        if not isinstance(event, trace.Generated | trace.Committed | trace.Failed | trace.Noted):
            self._show(event)
        if self._live:
            self._is_over = isinstance(event, trace.Answered | trace.Noted)
            self._live.refresh()

    def _follow(self, event: trace.AnyEvent) -> None:
        """Update the state that later events are shown with."""
        if isinstance(event, trace.Asked | trace.Searched):
            self._quotable.append(event)
        self._num_calls += isinstance(event, trace.Generated | trace.ScoredOptions)
        if isinstance(event, trace.Drafted):
            self._draft += event.text
        elif isinstance(event, trace.Committed):
            self._committed, self._draft = self._committed + event.text, ""
        elif isinstance(event, trace.Answered):
            self._committed, self._draft = "", ""
        elif isinstance(event, trace.Searched):
            self._draft = ""

    def _show(self, event: trace.AnyEvent) -> None:
        if isinstance(event, trace.Uncited):
            self._num_uncited += 1
            if self._num_uncited > _MOST_UNCITED:  # printing thousands would take longer than the answer
                return
        if isinstance(event, trace.Answered):
            if self._num_uncited > _MOST_UNCITED:
                left_out = (
                    f"uncited {self._num_uncited - _MOST_UNCITED} further sentences, which the trace has"
                )
                self._console.print(Text(left_out, PROVISIONAL))
            self._num_uncited = 0
        block = None if isinstance(event, trace.Asked) else event_block(event, self._quotable)
        if isinstance(event, trace.Asked) and self._shows_question:
            self.echo(event.text)
            block = setting_block(event)
        if block is not None:
            self._console.print(block, soft_wrap=isinstance(event, trace.Answered) and not self._live)
        self._legend.show(self._console, event)

    def _bottom(self) -> RenderableType:
        """Return the last lines, below everything that has been printed."""
        if self._is_over:
            return Group()
        if (self._committed + self._draft).strip():
            # Many events may follow that do not change the text, and each of them redraws it.
            shown = self._committed, self._draft, len(self._quotable), self._console.size
            if shown != self._grown[0]:
                self._grown = shown, self._growing()
            return self._grown[1]
        calls = f" · {self._num_calls} model calls" if self._num_calls else ""
        return Text(f"working, {self._console.get_time() - self._began:.0f} s{calls}", style=PROVISIONAL)

    def _growing(self) -> Text:
        """Return the answer so far with the draft, limited to the last lines that the terminal can redraw."""
        written = shown_plain(self._committed + self._draft, self._quotable)
        text, draft = Text(written.text), written.offset(len(self._committed))
        text.stylize(PROVISIONAL, draft)
        text = text[len(written.text) - len(written.text.lstrip()) :]
        lines = text.wrap(self._console, self._console.width)
        return Text("\n").join(lines[-max(1, self._console.height - 2) :])
