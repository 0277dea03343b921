"""Beam search over strings: a table gives the letters that may follow; "." ends a path."""

import asyncio
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.methods.selfrag.forms import LongForm
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.segment_writer import SegmentWriter
from askance.methods.selfrag.segments import Path, Segment
from tests.methods.reflecting import QUESTION


class Table(LongForm):
    """A long form whose paths are only strings; it records the paths grown, judged and pruned."""

    def __init__(self, table, scores, bounds, identity, delays, **parameters):
        super().__init__(SegmentWriter(Selfrag(form="long", **parameters), QUESTION, None, None))
        self.table, self.scores, self.bounds, self.delays = table, scores, bounds, delays
        self.identity = lambda path: identity(path.text)
        self.grown, self.settled, self.dropped = [], [], []

    def path(self, text):
        segment = Segment(text, "none", is_judged=text not in self.bounds)
        return Path((segment,) if text else (), is_finished=text.endswith("."))

    async def wait(self):
        if self.delays:
            await asyncio.sleep(self.delays.random() / 1000)

    async def grow(self, path):
        self.grown.append(path.text)
        await self.wait()
        return [self.path(path.text + letter) for letter in self.table.get(path.text, "")]

    async def judge(self, path):
        await self.wait()
        assert path.text not in self.settled
        self.settled.append(path.text)
        return replace(path, segments=(replace(path.segments[0], is_judged=True),))

    def record_pruned(self, path):
        self.dropped.append(path.text)

    def score(self, path):
        return self.scores.get(path.text, 0) + (0 if path.is_judged else self.bounds[path.text])


def search(table, scores, *, width=2, max_steps=5, identity=str, delays=None, bounds=None):
    """Run a beam search, given letters by text, scores by text (0 by default), and the excess of upper
    bounds.

    A path with an upper bound is not judged.
    """
    form = Table(table, scores, bounds or {}, identity, delays, beam_width=width, max_segments=max_steps)
    finished, beam = asyncio.run(form.beam(form.path("")))
    return ([path.text for path in finished], [path.text for path in beam]), form


TABLE = {"": "ab", "a": ".c", "b": ".d", "ac": "e", "bd": "e"}
LAST_LETTER = {"identity": lambda text: text[-1:], "max_steps": 2}


@pytest.mark.parametrize(
    ("table", "scores", "settings", "finished", "beam", "grown"),
    [
        ({"": "abc", "a": "x", "b": "y", "c": "z"}, {"a": 1, "b": 3, "c": 2}, {"max_steps": 2},
         "", "by cz", ["", "b", "c"]),
        ({"": "ab", "a": "x", "b": "y"}, {"a": 1, "b": 2, "ax": 99}, {"width": 1, "max_steps": 2},
         "", "by", ["", "b"]),
        ({"": "abc"}, {"a": 1, "b": 1, "c": 1}, {"max_steps": 1}, "", "a b", [""]),
        ({"": "abc"}, {"a": 1, "b": 2, "c": 3}, {"max_steps": 1}, "", "b c", [""]),
        ({"": ".ab", "a": "c", "b": "d"}, {".": -5, "a": 1, "b": 1}, {"max_steps": 2},
         ".", "ac bd", ["", "a", "b"]),
        (TABLE, {"a.": 2, "b.": 1, "ac": 2, "bd": 1}, {}, "a. b.", "ac bd", ["", "a", "b"]),
        (TABLE, {"a.": 2, "b.": 1, "ac": 2.5, "bd": 1}, {}, "a. b.", "ace bde", ["", "a", "b", "ac", "bd"]),
        (TABLE, {"a.": 2, "b.": 1, "ac": 2, "bd": 1}, {"width": 3}, "a. b.", "", None),
        ({"": "a"}, {}, {}, "", "", ["", "a"]),
        ({"a" * number: "a" for number in range(9)}, {}, {"max_steps": 3}, "", "aaa", ["", "a", "aa"]),
        ({"": "ab", "a": "x", "b": "x"}, {"ax": 1, "bx": 2}, LAST_LETTER, "", "bx", ["", "a", "b"]),
        ({"": "ab", "a": "x", "b": "x"}, {"ax": 1, "bx": 1}, LAST_LETTER, "", "ax", ["", "a", "b"]),
    ],
    ids=[
        "the best of each step are grown",
        "a width of one is greedy",
        "ties go to the earlier",
        "paths stay in the order in which they were found",
        "finished paths take no place in the beam",
        "it ends when enough are finished and no path left is better",
        "a path left is better than the best finished one",
        "fewer are finished than the beam is wide",
        "nothing grows",
        "no more steps than allowed",
        "of two duplicates the better is kept",
        "of two equal duplicates the earlier is kept",
    ],
)  # fmt: skip
def test_the_beam(table, scores, settings, finished, beam, grown):
    found, form = search(table, scores, **settings)
    assert found == (finished.split(), beam.split())
    assert form.grown == grown if grown is not None else "ace" in form.grown


def test_what_can_not_be_among_the_best_is_not_settled():
    scores, bounds = {"a": 3, "b": 1, "c": 2, "d": 0}, {"a": 1, "b": 1.5, "c": 1, "d": 1}
    found, grown = search({"": "abcd"}, scores, bounds=bounds, max_steps=1)
    assert found == ([], ["a", "c"])
    assert grown.settled == ["a", "c", "b"], "first those with the greatest bounds, then what may beat them"
    assert grown.dropped == ["d"]


def test_what_is_finished_is_settled_whatever_its_bound():
    table = {"": "ab", "a": ".x", "b": "x"}
    scores = {"a": 2, "b": 1, "a.": -9, "ax": 1, "bx": 9}
    bounds = {"a.": 1, "ax": 1, "bx": 1}
    found, grown = search(table, scores, bounds=bounds, identity=lambda state: state[-1:], max_steps=2)
    assert found == (["a."], ["bx"])
    assert sorted(grown.settled) == ["a.", "bx"], "the finished one, and the better of two that are the same"


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 3), st.booleans())
def test_bounds_change_nothing_that_is_found(chance, width, merges):
    table, scores, bounds, level = {}, {}, {}, [""]
    for _ in range(3):
        for state in level:
            table[state] = "".join(chance.sample("abcdef.", chance.randint(1, 5)))
        level = [state + letter for state in level for letter in table[state] if letter != "."]
    for state, letters in table.items():
        for letter in letters:
            scores[state + letter] = chance.randint(0, 4)
            if chance.random() < 0.8:
                bounds[state + letter] = chance.choice([0, 1, 2])
    identity = (lambda state: state[-2:]) if merges else str
    given = {"width": width, "max_steps": 3, "identity": identity}
    full, _ = search(table, scores, **given)
    bounded, grown = search(table, scores, bounds=bounds, **given)
    assert bounded == full
    again, timed = search(table, scores, bounds=bounds, delays=random.Random(1), **given)
    assert again == full
    assert sorted(timed.settled) == sorted(grown.settled), "nor does the work depend on timing"
    assert not set(grown.dropped) & set(grown.settled)
