"""Prompt-lookup drafts: which tokens are drafted, and from which texts."""

import pytest

from askance.inference import speculative as module
from askance.inference.speculative import NgramIndex, PromptLookupDrafter


def test_what_followed_the_same_ngram_is_drafted():
    assert PromptLookupDrafter([1, 2, 3, 4, 5, 6, 1, 2], NgramIndex()).draft(4) == [3, 4, 5, 6]
    assert PromptLookupDrafter([1, 2, 3, 4, 5, 6, 1, 2], NgramIndex()).draft(2) == [3, 4]


def test_without_an_earlier_ngram_nothing_is_drafted():
    assert PromptLookupDrafter([1, 2, 3, 4], NgramIndex()).draft(4) == []
    assert PromptLookupDrafter([1], NgramIndex()).draft(4) == []
    assert PromptLookupDrafter([], NgramIndex()).draft(4) == []
    assert PromptLookupDrafter([1, 2, 3, 1, 2], NgramIndex()).draft(0) == []


def test_the_longest_ngram_decides():
    ids = [1, 2, 3, 4, 50, 9, 3, 4, 60, 9, 9, 1, 2, 3, 4]
    assert PromptLookupDrafter(ids, NgramIndex()).draft(1) == [50]


def test_the_last_occurrence_counts():
    assert PromptLookupDrafter([1, 2, 50, 7, 1, 2, 60, 8, 1, 2], NgramIndex()).draft(1) == [60]


def test_the_draft_of_a_text_that_repeats_itself_repeats_itself():
    assert PromptLookupDrafter([9, 1, 2, 1, 2, 1, 2], NgramIndex()).draft(5) == [1, 2, 1, 2, 1]


def test_drafts_follow_the_text():
    ids = [1, 2, 3, 4]
    drafter = PromptLookupDrafter(ids, NgramIndex())
    assert drafter.draft(2) == []
    ids += [1, 2]
    assert drafter.draft(2) == [3, 4]


def test_generated_tokens_of_other_texts_are_drafted_but_not_their_prompts():
    index, ids = NgramIndex(), [1, 2, 3, 4, 5, 6]
    writer = PromptLookupDrafter(ids, index)
    ids += [10, 11, 12, 13]
    writer.finish()
    assert PromptLookupDrafter([8, 10, 11], index).draft(3) == [12, 13]
    assert PromptLookupDrafter([8, 5, 6], index).draft(3) == [10, 11, 12]
    assert PromptLookupDrafter([8, 1, 2], index).draft(3) == []


def test_the_own_text_goes_before_those_of_others():
    index = NgramIndex()
    index.add((1, 2, 50))
    assert PromptLookupDrafter([1, 2, 60, 1, 2], index).draft(1) == [60]


def test_texts_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MAX_TEXTS", 2)
    index = NgramIndex()
    for texts in ((1, 2, 3, 4), (5, 6, 7), (1, 2, 9, 9)):
        index.add(texts)
    assert PromptLookupDrafter([1, 2], index).draft(1) == [9]
    assert PromptLookupDrafter([2, 3], index).draft(1) == []
    assert len(index._positions) == 3
