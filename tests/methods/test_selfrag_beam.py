"""Beam search over strings: a table gives the letters that may follow; "." ends a path."""

import asyncio
import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from askance.methods.selfrag.long_form import LongForm
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

    async def judge_support(self, path):
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


def test_the_best_of_each_step_go_on():
    found, grown = search({"": "abc", "a": "x", "b": "y", "c": "z"}, {"a": 1, "b": 3, "c": 2}, max_steps=2)
    assert grown.grown == ["", "b", "c"]
    assert found == ([], ["by", "cz"])


def test_a_width_of_one_is_greedy():
    found, _ = search({"": "ab", "a": "x", "b": "y"}, {"a": 1, "b": 2, "ax": 99}, width=1, max_steps=2)
    assert found == ([], ["by"])


def test_ties_go_to_the_earlier():
    found, _ = search({"": "abc"}, {"a": 1, "b": 1, "c": 1}, max_steps=1)
    assert found == ([], ["a", "b"])


def test_states_stay_in_the_order_in_which_they_came_about():
    found, _ = search({"": "abc"}, {"a": 1, "b": 2, "c": 3}, max_steps=1)
    assert found == ([], ["b", "c"]), "not in that of their scores"


def test_finished_states_are_kept_beside_the_beam():
    found, grown = search({"": ".ab", "a": "c", "b": "d"}, {".": -5, "a": 1, "b": 1}, max_steps=2)
    assert grown.grown == ["", "a", "b"], "a finished state grows no more and takes no place"
    assert found == (["."], ["ac", "bd"])


def test_it_ends_when_enough_are_finished_and_none_left_is_better():
    table = {"": "ab", "a": ".c", "b": ".d", "ac": "e", "bd": "e"}
    ends_early, _ = search(table, {"a.": 2, "b.": 1, "ac": 2, "bd": 1})
    assert ends_early == (["a.", "b."], ["ac", "bd"])
    _, grown = search(table, {"a.": 2, "b.": 1, "ac": 2.5, "bd": 1})
    assert "ac" in grown.grown, "one left is better than the best finished"
    _, grown = search(table, {"a.": 2, "b.": 1, "ac": 2, "bd": 1}, width=3)
    assert "ace" in grown.grown, "fewer are finished than the beam is wide"


def test_it_ends_when_nothing_grows():
    assert search({"": "a"}, {})[0] == ([], [])


def test_no_more_steps_than_allowed():
    found, grown = search({"a" * number: "a" for number in range(9)}, {}, max_steps=3)
    assert (found, len(grown.grown)) == (([], ["aaa"]), 3)


def test_of_two_that_are_one_the_better_is_kept():
    table = {"": "ab", "a": "x", "b": "x"}
    last_letter = {"identity": lambda state: state[-1:], "max_steps": 2}
    assert search(table, {"ax": 1, "bx": 2}, **last_letter)[0][1] == ["bx"]
    assert search(table, {"ax": 1, "bx": 1}, **last_letter)[0][1] == ["ax"], "the earlier, where equal"


@settings(max_examples=30, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_nothing_depends_on_timing(chance, width):
    table, scores, level = {}, {}, [""]
    for _ in range(3):
        for state in level:
            table[state] = "".join(chance.sample("abc.", chance.randint(1, 3)))
        level = [state + letter for state in level for letter in table[state] if letter != "."]
    for state, letters in table.items():
        scores |= {state + letter: chance.randint(0, 2) for letter in letters}
    plain, _ = search(table, scores, width=width, max_steps=3)
    timed, _ = search(table, scores, width=width, max_steps=3, delays=random.Random(1))
    assert timed == plain


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


@settings(max_examples=60, deadline=None)
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
