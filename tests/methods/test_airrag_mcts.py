"""Tree search on a made-up game: actions are letters, and a path has an answer at a length."""

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.core.ports import Run
from askance.core.token_ledger import TokenLedger
from askance.core.trace import Trace
from askance.methods.airrag.parameters import AirragParameters
from askance.methods.airrag.state import ActionStep, Node, PathState
from askance.methods.airrag.tree_search import TreeSearch
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.methods.bridge import PATHS_ALONE, QUESTION
from tests.tolerances import near


@dataclass
class Game:
    """A game whose letters are actions.

    Attributes:
        outcomes: The number of outcomes of an action: the letter, and perhaps the capital.
        dead: Texts that no action reaches.
        last_resort: Letters that are legal once all others are dead.
        has_room: Whether the budget allows an action, given the text, the letter and the rollout.
        most: The number of rollouts for which there is room.
        delays: Random delays of the expansions.
        drawn: The text, the action and the rollout of each expansion.
    """

    letters: str = "abc"
    length: int = 3
    outcomes: int = 1
    dead: frozenset = frozenset()
    last_resort: str = ""
    has_room: Callable = lambda text, action, rollout: True
    most: int = 10**9
    delays: random.Random | None = None
    drawn: list = field(default_factory=list)

    def legal(self, text, dead):
        left = [letter for letter in self.letters if letter not in dead]
        return left or [letter for letter in self.last_resort if letter not in dead]

    async def expand(self, state, action, rollout):
        text = text_of(state)
        self.drawn.append((text, action, rollout))
        for _ in range(self.delays.randrange(4) if self.delays else 0):
            await asyncio.sleep(0)
        if not self.has_room(text, action, rollout):
            return None
        letters = (action, action.upper())[: self.outcomes] if text + action not in self.dead else ""
        return [self._after(state, letter) for letter in letters]

    def _after(self, state, letter):
        """Return the next state. The answer of a finished path has one word for each letter."""
        state = replace(state, steps=(*state.steps, ActionStep(letter.lower(), (letter,))))
        text = text_of(state)
        return replace(state, answer=" ".join(text.replace("a", "x"))) if len(text) >= self.length else state


def text_of(state):
    return "".join(step.output[0] for step in state.steps)


def search(game, **parameters):
    """Return the finished search of a game, after a check of its invariants."""
    made = AirragParameters(actions=PATHS_ALONE, **parameters)

    class Letters:
        def __getattr__(self, name):
            return getattr(made, name)

        def actions_after(self, state, dead=()):
            return () if state.answer is not None else game.legal(text_of(state), dead)

    class Player:
        def __init__(self, rollout):
            self.rollout, self.budget = rollout, TokenLedger()

        async def expand(self, state, node, action):
            return await game.expand(state, action, self.rollout)

    class Search(TreeSearch):
        __slots__ = ()

        def _action_runner(self, budget):
            return Player(self.num_rollouts)

        async def _budget_of_rollout(self, rollout):
            return TokenLedger() if rollout < game.most else None

    run = Run({"answer": ScriptedModel(["x"])}, ScriptedRetriever([]), Trace())
    searching = Search(Letters(), QUESTION, run)
    asyncio.run(searching.search())
    for node in (node for root in searching.roots for node in root.subtree()):
        reached = [each for each in searching.answers if node in each.path]
        assert node.value == near(sum(each.reward for each in reached))
        assert node.visits == len(reached)
        assert all(child.parent is node for child in node.children)
    assert searching.num_rollouts == sum(root.visits for root in searching.roots) + searching.num_failed
    assert len(searching.answers) == len(set(searching.answers)), "no answer is reached twice"
    assert not searching.postponed
    return searching


def shape(searching):
    nodes = [node for root in searching.roots for node in root.subtree()]
    return [(node.name, text_of(node.state), node.visits, round(node.value, 9)) for node in nodes]


def not_at_first(text, action, rollout):
    return action != "a" or rollout >= 3


GAMES = {
    "untried actions come first, in their order": (Game(length=1), {"rollouts": 3}, "a b c", 0),
    "the search ends when nothing new is left": (Game("ab", 2), {"rollouts": 99}, "aa ba ab bb", 0),
    "of two outcomes one is entered and the other waits": (Game("a", 1, 2), {"rollouts": 5}, "a A", 0),
    "one rollout enters one outcome": (Game("a", 1, 2), {"rollouts": 1}, "a", 0),
    "a rollout goes on below a node whose action had no room": (
        Game("a", has_room=lambda text, action, rollout: text != "aa" or rollout), {"rollouts": 2}, "aaa", 1,
    ),
    "an action in vain does not fail a rollout beside a live sibling": (
        Game("ab", 2, dead=frozenset({"a", "ba"})), {"rollouts": 1}, "bb", 0,
    ),
    "actions in vain give way to a last resort": (
        Game("ab", 1, dead=frozenset({"a", "b"}), last_resort="z"), {"rollouts": 3}, "z", 0,
    ),
    "a rollout that ends nowhere leaves no visit": (
        Game("ab", 2, dead=frozenset({"aa", "ab"})), {"rollouts": 20}, "ba bb", 1,
    ),
    "an action without room for now is tried again in the next wave": (
        Game("ab", 2, has_room=not_at_first), {"rollouts": 20}, "bb ab ba aa", 2,
    ),
    "no rollout starts without room": (Game(most=2), {"rollouts": 9}, "aaa bac", 0),
    "no path starts without room": (Game(most=2), {"rollouts": 9, "search": "paths"}, "aaa aaa", 0),
    "independent paths take the actions in their order": (
        Game("ab", 2), {"rollouts": 3, "search": "paths"}, "aa aa aa", 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("wave", [1, 4])
def test_the_answers_reached_and_the_failed_rollouts(name, wave):
    game, parameters, ends, num_failed = GAMES[name]
    game = replace(game, drawn=[])
    searching = search(game, wave=wave, **parameters)
    reached = [text_of(node.state) for node in searching.answers]
    assert sorted(reached) == sorted(ends.split())
    if wave == 1:
        assert (reached, searching.num_failed) == (ends.split(), num_failed)
    expansions = [(text, action) for text, action, _ in game.drawn]
    once = parameters.get("search") != "paths" and game.has_room is Game.has_room
    assert not once or len(expansions) == len(set(expansions)), "no action is drawn twice"


def test_uct_of_the_worked_example():
    parent = Node(PathState(), visits=4)
    one = Node(PathState(), "a", parent, visits=2, value=1.5)
    other = Node(PathState(), "b", parent, visits=1, value=0.9)
    assert one.uct(2.0) == near(2.415, "as told", "3 decimals")
    assert other.uct(2.0) == near(3.255, "as told", "3 decimals")
    assert Node(PathState(), "c", parent).uct(2.0) == math.inf


def test_a_failure_ends_the_search_and_all_of_its_wave():
    continued = []

    class Broken(Game):
        async def expand(self, state, action, rollout):
            text = text_of(state)
            if text and rollout == 1:
                raise ValueError("broken")
            await asyncio.sleep(0.01 * bool(text))
            continued.append(text)
            return await super().expand(state, action, rollout)

    with pytest.raises(ValueError, match="broken"):
        search(Broken(), rollouts=8)
    assert len(continued) < 8


@settings(max_examples=50, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "letters": st.sampled_from(["a", "ab", "abc"]),
            "length": st.integers(1, 4),
            "outcomes": st.integers(1, 2),
            "dead": st.frozensets(st.text("abc", min_size=1, max_size=4), max_size=6),
        }
    ),
    st.fixed_dictionaries(
        {
            "rollouts": st.integers(1, 24),
            "wave": st.integers(1, 5),
            "search": st.sampled_from(["tree", "tree", "paths"]),
        }
    ),
    st.integers(),
)
def test_timing_changes_nothing(made, parameters, seed):
    nodes = shape(search(Game(**made), **parameters))
    assert shape(search(Game(**made, delays=random.Random(seed)), **parameters)) == nodes
    assert len(nodes) == len({name for name, *_ in nodes})
