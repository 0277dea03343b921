"""Tree search on a made-up game: actions are letters, and a path has an answer at a length."""

import asyncio
import math
import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.core.ports import Run
from askance.core.token_ledger import TokenLedger
from askance.core.trace import Trace
from askance.methods.airrag.parameters import AirragParameters
from askance.methods.airrag.state import Node, PathState
from askance.methods.airrag.tree_search import TreeSearch
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.methods.bridge import PATHS_ALONE, QUESTION
from tests.tolerances import near


@dataclass
class Game:
    """A game whose letters are actions, which lead to several outcomes (also the capital) or none.

    Attributes:
        drawn: The state, the action and the rollout of each expansion.
        delays: Random delays of the expansions.
    """

    letters: str = "abc"
    length: int = 3
    outcomes: int = 1
    dead: frozenset = frozenset()
    delays: random.Random | None = None
    drawn: list = field(default_factory=list)

    def legal(self, text, dead):
        return tuple(letter for letter in self.letters if letter not in dead)

    async def expand(self, text, action, rollout):
        self.drawn.append((text, action, rollout))
        if self.delays is not None:
            for _ in range(self.delays.randrange(4)):
                await asyncio.sleep(0)
        if text + action in self.dead:
            return []
        return [text + letter for letter in (action, action.upper())[: self.outcomes]]

    def is_end(self, text):
        return len(text) >= self.length

    def may_start(self, rollout):
        return True


def text_of(state):
    return "".join(step.action if step.output == ("",) else step.action.upper() for step in state.steps)


def state_of(state, action, text, game):
    """Return the state after an action; its answer is one word for each letter."""
    mark = "" if text[-1] == action else "capital"
    state = state._with_step(action, (mark,))
    return replace(state, answer=" ".join(text.replace("a", "x"))) if game.is_end(text) else state


def run(game, **parameters):
    """Return the search of a game."""

    class Letters:
        def __getattr__(self, name):
            return getattr(made, name)

        def actions_after(self, state, dead=()):
            return () if state.answer is not None else game.legal(text_of(state), dead)

    class Player:
        def __init__(self, rollout):
            self.rollout, self.budget = rollout, TokenLedger()

        async def expand(self, state, node, action):
            texts = await game.expand(text_of(state), action, self.rollout)
            return None if texts is None else [state_of(state, action, text, game) for text in texts]

    class Search(TreeSearch):
        __slots__ = ()

        def _action_runner(self, budget):
            return Player(self.num_rollouts)

        async def _budget_of_rollout(self, rollout):
            return TokenLedger() if game.may_start(rollout) else None

    made = AirragParameters(actions=PATHS_ALONE, **parameters)
    models = {"answer": ScriptedModel(["x"])}
    search = Search(Letters(), QUESTION, Run(models, ScriptedRetriever([]), Trace()))
    asyncio.run(search.search())
    return search


def shape(search):
    nodes = [node for root in search.roots for node in root.subtree()]
    return [(node.name, text_of(node.state), node.visits, round(node.value, 9)) for node in nodes]


def ends(search):
    return [text_of(node.state) for node in search.answers]


def test_uct_of_the_worked_example():
    parent = Node(PathState(), visits=4)
    one = Node(PathState(), "a", parent, visits=2, value=1.5)
    other = Node(PathState(), "b", parent, visits=1, value=0.9)
    assert one.uct(2.0) == near(2.415, "as told", "3 decimals")
    assert other.uct(2.0) == near(3.255, "as told", "3 decimals")
    assert Node(PathState(), "c", parent).uct(2.0) == math.inf


def test_what_nobody_tried_comes_first_in_the_order_of_the_actions():
    game = Game(length=1)
    search = run(game, rollouts=3, wave=1)
    assert [action for _, action, _ in game.drawn] == ["a", "b", "c"]
    assert ends(search) == ["a", "b", "c"]


def test_the_search_ends_when_nothing_new_is_left():
    search = run(Game("ab", 2), rollouts=100)
    assert sorted(ends(search)) == ["aa", "ab", "ba", "bb"]
    assert search.num_rollouts == 4


def test_a_rollout_goes_on_below_nodes_with_nothing_left_to_try():
    """The first rollout reaches "aa", where it has no budget; the next one is not spent on "a"."""

    class Short(Game):
        async def expand(self, text, action, rollout):
            return None if text == "aa" and not rollout else await super().expand(text, action, rollout)

    search = run(Short("a"), rollouts=2)
    assert ends(search) == ["aaa"]
    assert (search.num_rollouts, search.num_failed) == (2, 1)


def test_of_several_outcomes_one_is_entered_and_the_others_wait():
    search = run(Game("a", 1, 2), rollouts=1)
    assert [(text_of(node.state), node.visits) for node in search.roots[0].children] == [("a", 1), ("A", 0)]
    game = Game("a", 1, 2)
    assert ends(run(game, rollouts=5)) == ["a", "A"]
    assert len(game.drawn) == 1


def test_an_action_in_vain_does_not_fail_a_rollout_beside_a_live_sibling():
    search = run(Game("ab", 2, dead=frozenset({"a", "ba"})), rollouts=1)
    assert ends(search) == ["bb"]
    assert search.num_failed == 0
    check(search)


def test_an_action_in_vain_gives_way_to_what_becomes_legal_then():
    class Late(Game):
        def legal(self, text, dead):
            return ("z",) if set(dead) >= {"a", "b"} else tuple(each for each in "ab" if each not in dead)

        async def expand(self, text, action, rollout):
            return [action] if action == "z" else []

    search = run(Late(length=1), rollouts=3, wave=1)
    assert ends(search) == ["z"]
    assert search.roots[0].dead_actions == {"a", "b"}


def test_a_rollout_that_ends_nowhere_leaves_no_visit():
    search = run(Game("ab", 2, dead=frozenset({"aa", "ab"})), rollouts=20)
    assert sorted(ends(search)) == ["ba", "bb"]
    assert (search.num_failed, search.roots[0].visits) == (1, 2)
    check(search)


@pytest.mark.parametrize("wave", [1, 4])
def test_an_action_that_can_not_be_drawn_for_now_is_tried_again_in_the_next_wave(wave):
    class Short(Game):
        async def expand(self, text, action, rollout):
            texts = await super().expand(text, action, rollout)
            return None if action == "a" and rollout < 3 else texts

    game = Short("ab", 2)
    search = run(game, rollouts=20, wave=wave)
    assert sorted(ends(search)) == ["aa", "ab", "ba", "bb"]
    assert not search.postponed
    assert not any(node.dead_actions for node in search.roots[0].subtree())
    assert len(game.drawn) > 6
    check(search)


def test_no_rollout_starts_without_room():
    class Two(Game):
        def may_start(self, rollout):
            return rollout < 2

    for parameters in ({}, {"search": "paths"}):
        assert run(Two(), rollouts=9, **parameters).num_rollouts == 2


def test_independent_paths_have_roots_of_their_own():
    search = run(Game("ab", 2), rollouts=5, search="paths")
    assert ends(search) == ["aa"] * 5, "in the order of the actions"
    assert [node.name for node in search.answers] == [f"{number}.1.1" for number in range(5)]
    check(search)


def test_a_failure_ends_the_search_and_all_of_its_wave():
    going_on = []

    class Broken(Game):
        async def expand(self, text, action, rollout):
            if text and rollout == 1:
                raise ValueError("broken")
            await asyncio.sleep(0.01 * bool(text))
            going_on.append(text)
            return [text + action]

    with pytest.raises(ValueError, match="broken"):
        run(Broken(), rollouts=8)
    assert len(going_on) < 8


def check(search):
    """Check the invariants of every tree."""
    for node in (node for root in search.roots for node in root.subtree()):
        reached = [each for each in search.answers if node in each.path]
        assert node.value == near(sum(each.reward for each in reached))
        assert node.visits == len(reached)
        assert all(child.parent is node for child in node.children)
    assert search.num_rollouts == sum(root.visits for root in search.roots) + search.num_failed
    assert len(search.answers) == len(set(search.answers)), "no answer is reached twice"


many_games = {
    "letters": st.sampled_from(["a", "ab", "abc"]),
    "length": st.integers(1, 4),
    "outcomes": st.integers(1, 2),
    "dead": st.frozensets(st.text("abc", min_size=1, max_size=4), max_size=6),
}
many_settings = {
    "rollouts": st.integers(1, 24),
    "wave": st.integers(1, 5),
    "search": st.sampled_from(["tree", "tree", "paths"]),
}


@settings(max_examples=150, deadline=None)
@given(st.fixed_dictionaries(many_games), st.fixed_dictionaries(many_settings), st.integers())
def test_visits_and_values_add_up_and_timing_changes_nothing(made, chosen, seed):
    search = run(Game(**made), **chosen)
    check(search)
    assert shape(run(Game(**made, delays=random.Random(seed)), **chosen)) == shape(search)
    names = [name for name, *_ in shape(search)]
    assert len(names) == len(set(names))
