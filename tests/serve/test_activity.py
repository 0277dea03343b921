"""What a command says it is doing."""

import io

import pytest
from rich.console import Console

from askance.core.activity import doing, shown_by
from askance.serve.activity import Activities


def shown(work, **how):
    stream = io.StringIO()
    console = Console(file=stream, width=80, color_system=None, **how)
    with shown_by(Activities(console, ticks=False)):
        work()
    return stream.getvalue()


def is_erased(screen):
    """Whether nothing is left of the line."""
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


def test_work_that_tells_its_total_has_a_bar():
    def loading():
        with doing("loading") as advance:
            advance(2)

    def converting():
        with doing("converting", 4) as advance:
            advance(2)

    assert "━" * 10 not in shown(loading, force_terminal=True)
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
