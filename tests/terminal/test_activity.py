"""The activities that a command shows."""

import io

import pytest
from rich.console import Console

from askance.core.notes import before_doing, doing, shown_by
from askance.terminal.progress import Activities


def shown(work, *, force_terminal=None, force_interactive=True):
    stream = io.StringIO()
    is_live = bool(force_terminal and force_interactive)
    console = Console(
        file=stream, width=80, color_system=None, force_terminal=force_terminal, force_interactive=is_live
    )
    with shown_by(Activities(console, ticks=False)):
        work()
    return stream.getvalue()


def is_erased(screen):
    """Return whether nothing is left of the line."""
    return screen.rstrip("\r").endswith("\x1b[2K\x1b[?25h")


def convert():
    with doing("loading the model bundled"), doing("converting the weights", 4) as advance:
        advance(1)
        advance(2)


def test_without_a_terminal_it_is_a_line_each():
    assert shown(convert) == "loading the model bundled\nconverting the weights\n"


def test_on_a_terminal_it_is_there_while_it_goes_on():
    def work():
        with doing("loading the model bundled"):
            pass
        with doing("opening [the] index"):
            pass

    screen = shown(work, force_terminal=True)
    assert "loading the model bundled" in screen
    assert "opening [the] index" in screen
    assert is_erased(screen)


def test_a_terminal_that_can_go_nowhere_but_down_has_a_line_each():
    assert shown(convert, force_terminal=True, force_interactive=False) == shown(convert)


def test_work_has_a_bar():
    def converting():
        with doing("converting", 4) as advance:
            advance(2)

    assert "━" * 10 in shown(converting, force_terminal=True)


def test_nobody_has_to_listen():
    convert()
    with shown_by(None), doing("anything", 1) as advance:
        advance(1)


def test_work_that_breaks_leaves_no_line():
    def work():
        with pytest.raises(ValueError, match="broken"), doing("loading"):
            raise ValueError("broken")

    assert is_erased(shown(work, force_terminal=True))


def test_what_comes_first_is_there_before_the_line():
    stream = io.StringIO()
    console = Console(file=stream, width=80)
    with shown_by(Activities(console)), before_doing(lambda: console.print("Where?")):
        convert()
    assert stream.getvalue() == "Where?\nloading the model bundled\nWhere?\nconverting the weights\n"
    with before_doing(lambda: seen.append("asked")):
        seen = []
        convert()
    assert seen == ["asked", "asked"]
