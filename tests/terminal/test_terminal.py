"""The screen of a question that is being answered."""

import io

from rich.console import Console

from askance.core.trace import Drafted, Noted, Trace
from askance.terminal.live_view import LiveView


def test_the_growing_answer_makes_room_for_a_note():
    """The message goes to standard error on the same screen: nothing else may be in that line."""
    screen = io.StringIO()
    with LiveView(
        Console(file=screen, force_terminal=True, width=80, color_system=None), ticks=False
    ) as view:
        trace = Trace(view)
        trace.add(Drafted, text="The river")
        before = len(screen.getvalue())
        trace.add(Noted, name="retry", text="It is busy.", place="answer")
        assert "The river" not in screen.getvalue()[before:]
        trace.add(Drafted, text=" Rhine")
        assert "The river Rhine" in screen.getvalue()[before:]
