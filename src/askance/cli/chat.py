"""The command for conversations, in which questions may refer to earlier ones."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.text import Text

from askance.ask import Engine, describe_models, precisions_of
from askance.cli.options import OF_ONE_QUESTION, OtelFlag, parameters_by_name, recording, with_settings
from askance.configuration.sources import SourcedConfig, given_as, merged
from askance.conversation import Conversation
from askance.core.errors import AskanceError, InputError, UnknownName
from askance.core.notes import shown_by
from askance.core.parameters import method_spec
from askance.core.safe_text import printable
from askance.core.trace import Answered, AnyEvent, Decided, Expanded, Noted, Trace
from askance.terminal.console import err, out, print_plain
from askance.terminal.live_view import LiveView
from askance.terminal.trace_view import PROVISIONAL, QUERY, Legend, print_trace

_Result = TypeVar("_Result")


@with_settings(*OF_ONE_QUESTION)
def chat(sourced: SourcedConfig, trace: Path | None = None, otel: OtelFlag = False) -> None:
    """Answer questions that may refer to earlier ones. /help lists the commands of the chat.

    Each line of the input is a question or a command. Ctrl-C stops an answer, and Ctrl-D ends the chat. In a
    pipe, the exit code is that of the first question or command that failed.

    Args:
        trace: Write the trace of each question to this file (JSON Lines), which then has that of the last.

    Examples:
        askance chat --index my-index
        askance chat --index my-index --method flare --trace why.jsonl
    """
    failures = list[int]()
    with recording(otel, trace) as on_end, asyncio.Runner() as runner:
        engine = replace(sourced.for_method().open_to_answer(), on_end=on_end)
        session = _ChatSession(sourced, engine, runner)
        if sys.stdin.isatty():
            print_plain(out, session.setting, PROVISIONAL)
            print_plain(out, "/help lists the commands; Ctrl-D ends the chat.", PROVISIONAL)
        for line in _lines():
            try:
                session.take(line)
            except AskanceError as error:
                print_plain(err, f"error: {error}", "red")
                failures.append(error.exit_code)
            except KeyboardInterrupt:
                print_plain(err, "stopped", "red")
                if not sys.stdin.isatty():
                    raise
            sys.stdout.flush()  # a program at the other end of a pipe waits for the answer
    if failures and not sys.stdin.isatty():
        raise typer.Exit(failures[0])


def _lines() -> Iterator[str]:
    """Yield the lines of the input that are not blank. On a terminal, each one is asked for with a prompt."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        with suppress(ImportError):  # Windows has none
            import readline  # noqa: F401 - makes input() edit lines and remember them
    while True:
        try:
            line = input("› " if is_terminal else "").strip()
        except EOFError:
            if is_terminal:
                out.print()
            return
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            out.print()
            continue
        if line:
            yield line


_WAKE_SECONDS = 0.2


async def _awake(work: Awaitable[_Result]) -> _Result:
    """Await `work`, and wake the event loop now and then.

    Ctrl-C that arrives just before the loop starts to wait would otherwise count only at its next event.
    """

    async def wake() -> None:
        while True:
            await asyncio.sleep(_WAKE_SECONDS)

    waking = asyncio.create_task(wake())
    try:
        return await work
    finally:
        waking.cancel()


class _ChatSession:
    """The state of one chat.

    Attributes:
        conversation: The engine and the earlier turns.
        last: The trace of the last question; empty before the first one.
    """

    def __init__(self, sourced: SourcedConfig, engine: Engine, runner: asyncio.Runner) -> None:
        self._sourced, self._runner, self._legend = sourced, runner, Legend()
        self.conversation, self.last = Conversation(engine), Trace()

    @property
    def setting(self) -> str:
        """The method, the models and the retriever on one line."""
        engine = self.conversation.engine
        names: dict[str, str] = {role: model.name for role, model in engine.models.items()}
        parts = [str(method_spec(engine.method)), describe_models(names, precisions_of(engine.models))]
        return " · ".join([*parts, *([engine.retriever.name] if engine.retriever else [])])

    def take(self, line: str) -> None:
        """Run a command, or answer a question.

        Raises:
            AskanceError: The command is unknown or can't be run, or the question can't be answered.
        """
        if not line.startswith("/"):
            self._answer(line)
            return
        name, *words = line.split()
        if name not in _COMMANDS:
            raise UnknownName("command", name, _COMMANDS, remedy="/help says what each command does.")
        _, run = _COMMANDS[name]
        run(self, words)

    def _answer(self, question: str) -> None:
        with shown_by(None), LiveView(out, legend=self._legend, shows_question=False) as view:
            if not (sys.stdin.isatty() and out.is_terminal):  # otherwise, the user has just typed it there
                view.echo(question)
            self.last = Trace(view)
            self._runner.run(_awake(self.conversation.answer(question, trace=self.last)))

    def new(self, _: Sequence[str]) -> None:
        """Forget the earlier turns."""
        self.conversation = Conversation(self.conversation.engine)
        self.last = Trace()
        print_plain(out, "a new conversation: the earlier questions are forgotten", PROVISIONAL)

    def help(self, _: Sequence[str]) -> None:
        """Print the commands."""
        for name, (what, _run) in _COMMANDS.items():
            print_plain(out, f"{name:<9}{what}")

    def why(self, _: Sequence[str]) -> None:
        """Print the decisions of the last answer."""
        decisions = [event for event in self._last_events() if isinstance(event, Decided | Expanded | Noted)]
        print_trace(decisions, out)
        if not decisions:
            print_plain(out, "the method made no decisions", PROVISIONAL)

    def sources(self, _: Sequence[str]) -> None:
        """Print the passages that the last answer cites."""
        answers = [event.answer for event in self._last_events() if isinstance(event, Answered)]
        passages = {each.number: each.passage for answer in answers for each in answer.citations}
        for number, passage in sorted(passages.items()):
            head = Text.assemble((f"[{number}] ", QUERY), (printable(passage.title), "bold"))
            out.print(head.append(f"  {printable(passage.location)}", style=PROVISIONAL), soft_wrap=True)
            print_plain(out, passage.text)
        if not passages:
            print_plain(out, "the last answer cites no passage", PROVISIONAL)

    def method(self, words: Sequence[str]) -> None:
        """Switch to another method, or to other parameters, and keep the earlier turns."""
        if not words:
            raise InputError("/method needs a name, such as /method single: `askance methods` lists them.")
        settings: dict[str, Any] = {"method": words[0]}
        if words[1:]:
            settings["parameters"] = parameters_by_name(words[1:])
        sourced = merged([*self._sourced.layers, given_as(settings, "/method")])
        before = self.conversation.engine
        models, encoder, retriever = before.models, before.encoder, before.retriever
        engine = sourced.for_method().open_to_answer(models=models, encoder=encoder, retriever=retriever)
        self.conversation.engine = replace(engine, on_end=before.on_end)
        self._sourced = sourced
        print_plain(out, self.setting, PROVISIONAL)

    def _last_events(self) -> Sequence[AnyEvent]:
        if not self.last.events:
            raise InputError("there is no answer yet: ask a question first.")
        return self.last.events


_COMMANDS: dict[str, tuple[str, Callable[[_ChatSession, Sequence[str]], None]]] = {
    "/why": ("the decisions of the last answer", _ChatSession.why),
    "/sources": ("the passages that the last answer cites", _ChatSession.sources),
    "/method": ("NAME [PARAMETER=VALUE …]: answer with another method or parameters", _ChatSession.method),
    "/new": ("forget the earlier questions", _ChatSession.new),
    "/help": ("these commands", _ChatSession.help),
}
"""The commands of the chat: what each does, and the function that runs it with the words after its name."""
