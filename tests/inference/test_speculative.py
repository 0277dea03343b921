"""What a text is guessed to go on with."""

import pytest

from askance.inference import speculative as module
from askance.inference.speculative import Guesser, Memory


def test_what_followed_the_same_tokens_is_guessed():
    assert Guesser([1, 2, 3, 4, 5, 6, 1, 2], Memory()).guess(4) == [3, 4, 5, 6]
    assert Guesser([1, 2, 3, 4, 5, 6, 1, 2], Memory()).guess(2) == [3, 4]


def test_nothing_is_guessed_of_what_was_not_there_before():
    assert Guesser([1, 2, 3, 4], Memory()).guess(4) == []
    assert Guesser([1], Memory()).guess(4) == []
    assert Guesser([], Memory()).guess(4) == []
    assert Guesser([1, 2, 3, 1, 2], Memory()).guess(0) == []


def test_more_tokens_that_are_the_same_tell_more():
    ids = [1, 2, 3, 4, 50, 9, 3, 4, 60, 9, 9, 1, 2, 3, 4]
    assert Guesser(ids, Memory()).guess(1) == [50]


def test_the_last_time_counts():
    assert Guesser([1, 2, 50, 7, 1, 2, 60, 8, 1, 2], Memory()).guess(1) == [60]


def test_a_text_that_goes_round_in_circles_is_guessed_to_go_on_so():
    assert Guesser([9, 1, 2, 1, 2, 1, 2], Memory()).guess(5) == [1, 2, 1, 2, 1]


def test_guesses_follow_the_text():
    ids = [1, 2, 3, 4]
    guesser = Guesser(ids, Memory())
    assert guesser.guess(2) == []
    ids += [1, 2]
    assert guesser.guess(2) == [3, 4]


def test_what_other_texts_wrote_is_guessed_but_not_their_prompts():
    memory, ids = Memory(), [1, 2, 3, 4, 5, 6]
    writer = Guesser(ids, memory)
    ids += [10, 11, 12, 13]
    writer.end()
    assert Guesser([8, 10, 11], memory).guess(3) == [12, 13]
    assert Guesser([8, 5, 6], memory).guess(3) == [10, 11, 12]
    assert Guesser([8, 1, 2], memory).guess(3) == []


def test_the_own_text_goes_before_those_of_others():
    memory = Memory()
    memory.add((1, 2, 50))
    assert Guesser([1, 2, 60, 1, 2], memory).guess(1) == [60]


def test_texts_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_KEPT_TEXTS", 2)
    memory = Memory()
    for texts in ((1, 2, 3, 4), (5, 6, 7), (1, 2, 9, 9)):
        memory.add(texts)
    assert Guesser([1, 2], memory).guess(1) == [9]
    assert Guesser([2, 3], memory).guess(1) == []
    assert len(memory._places) == 3
