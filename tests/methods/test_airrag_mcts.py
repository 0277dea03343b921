"""Tree search on a made-up game: states are strings, terminal at a length, with rewards by a rule."""

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.methods.airrag.mcts import ActionOutcome, MctsTree, Node
from askance.methods.airrag.method import Airrag
from tests.tolerances import near

LENGTH = 3


@dataclass(frozen=True)
class SearchProblem:
    """The functions of a game, one by one."""

    legal_actions: Callable
    expand: Callable
    is_terminal: Callable
    choose_action: Callable
    rewards: Callable
    may_start: Callable = lambda rollout: True
    on_rollout_end: Callable = lambda rollout: None
    should_stop: Callable = lambda tree: False
    side_actions: Sequence[str] = ()

    async def can_start(self, rollout):
        return self.may_start(rollout)


def worth(state):
    return (sum(map(ord, state)) % 7) / 6


def game(*, letters="abc", length=LENGTH, outcomes=1, delays=None, dead=(), rewards=None, may_start=None):
    """Return a game: each letter is an action, which may have several outcomes (also the capital) or none."""
    drawn = []

    async def expand(node, action, rollout):
        drawn.append((node.state, action, rollout))
        if delays is not None:
            for _ in range(delays.randrange(4)):
                await asyncio.sleep(0)
        if node.state + action in dead:
            return []
        letters_of = [action, action.upper()][:outcomes]
        return [ActionOutcome(node.state + letter, 1) for letter in letters_of]

    problem = SearchProblem(
        legal_actions=lambda state, dead: [letter for letter in letters if letter not in dead],
        expand=expand,
        is_terminal=lambda state: len(state) >= length,
        choose_action=lambda node, untried, rollout: random.Random(f"{node.name} {rollout}").choice(untried),
        rewards=rewards or (lambda terminals: [worth(each.state) for each in terminals]),
        may_start=may_start or (lambda rollout: True),
    )
    return problem, drawn


def run(problem, *, seed="", revisits=False, **parameters):
    tree = MctsTree(
        "", problem, Airrag(skip_exhausted=not revisits, **parameters), seed, problem.side_actions
    )
    asyncio.run(tree.search())
    return tree


def shape(tree):
    return [(node.name, node.state, node.visits, round(node.value, 9)) for node in tree.root.subtree()]


def test_uct_of_the_worked_example():
    parent = Node("p", visits=4)
    one = Node("a", "a", parent, visits=2, value=1.5)
    other = Node("b", "b", parent, visits=1, value=0.9)
    assert one.uct(2.0) == near(2.415, "as told", "3 decimals")
    assert other.uct(2.0) == near(3.255, "as told", "3 decimals")
    assert Node("c", "c", parent).uct(2.0) == math.inf


def test_what_nobody_tried_comes_first_in_the_order_of_the_actions():
    problem, drawn = game(length=1)
    tree = run(problem, rollouts=3, wave=1)
    assert [action for _, action, _ in drawn] == ["a", "b", "c"]
    assert [node.state for node in tree.terminals] == ["a", "b", "c"]


def test_the_search_ends_when_nothing_new_is_left():
    problem, _ = game(letters="ab", length=2)
    tree = run(problem, rollouts=100)
    assert sorted(node.state for node in tree.terminals) == ["aa", "ab", "ba", "bb"]
    assert tree.num_rollouts == 4


def test_a_rollout_goes_on_below_nodes_with_nothing_left_to_try():
    """The first rollout reaches "aa", where it has no budget; the next one is not spent on "a"."""
    problem, _ = game(letters="a")

    async def expand(node, action, rollout):
        return None if node.state == "aa" and not rollout else await problem.expand(node, action, rollout)

    tree = run(replace(problem, expand=expand), rollouts=2)
    assert [node.state for node in tree.terminals] == ["aaa"]
    assert (tree.num_rollouts, tree.num_failed) == (2, 1)


def test_terminals_may_be_visited_again_where_that_is_wanted():
    problem, drawn = game(letters="ab", length=1)
    tree = run(problem, rollouts=10, wave=2, revisits=True)
    assert len(drawn) == 2
    assert tree.num_rollouts == tree.root.visits == 10
    assert sum(node.num_rewarded for node in tree.terminals) == 10
    assert tree.root.value == near(sum(worth(node.state) * node.visits for node in tree.terminals))


def test_of_several_outcomes_one_is_entered_and_the_others_wait():
    problem, drawn = game(letters="a", length=1, outcomes=2)
    tree = run(problem, rollouts=1)
    assert [(node.state, node.visits) for node in tree.root.children] == [("a", 1), ("A", 0)]
    again = run(problem, rollouts=5)
    assert [node.state for node in again.terminals] == ["a", "A"]
    assert len(drawn) == 2


def test_an_eager_search_draws_for_all_actions_of_a_node():
    problem, drawn = game(length=2)
    run(problem, rollouts=1, expansion="eager")
    assert [(state, action) for state, action, _ in drawn[:3]] in [
        [("", first), *[("", other) for other in "abc" if other != first]] for first in "abc"
    ]
    assert len(drawn) == 6


def test_what_an_eager_expansion_draws_for_is_drawn_side_by_side():
    problem, _ = game(length=2)
    running, at_once = [], []

    async def expand(node, action, rollout):
        running.append(action)
        at_once.append(len(running))
        await asyncio.sleep(0)
        running.remove(action)
        return await problem.expand(node, action, rollout)

    tree = run(replace(problem, expand=expand), rollouts=1, expansion="eager")
    assert max(at_once) == 3
    check(tree)


@pytest.mark.parametrize("expansion", ["lazy", "eager"])
def test_an_action_in_vain_does_not_fail_a_rollout_beside_a_live_sibling(expansion):
    problem, _ = game(letters="ab", length=2, dead={"a", "ba"})
    first = replace(problem, choose_action=lambda node, untried, rollout: untried[0])
    tree = run(first, rollouts=1, expansion=expansion)
    assert [node.state for node in tree.terminals] == ["bb"]
    assert tree.num_failed == 0
    check(tree)


def test_an_action_in_vain_gives_way_to_what_becomes_legal_then():
    def actions(state, dead):
        return ["z"] if dead >= {"a", "b"} else [each for each in "ab" if each not in dead]

    async def expand(node, action, rollout):
        return [ActionOutcome(node.state + action)] if action == "z" else []

    problem = SearchProblem(
        legal_actions=actions,
        expand=expand,
        is_terminal=lambda state: state.endswith("z"),
        choose_action=lambda node, untried, rollout: untried[0],
        rewards=lambda terminals: [1.0] * len(terminals),
    )
    tree = run(problem, rollouts=3, wave=1)
    assert [node.state for node in tree.terminals] == ["z"]
    assert tree.root.dead_actions == {"a", "b"}


def test_a_rollout_that_ends_nowhere_leaves_no_visit():
    problem, _ = game(letters="ab", length=2, dead={"aa", "ab"})
    tree = run(problem, rollouts=20)
    assert sorted(node.state for node in tree.terminals) == ["ba", "bb"]
    assert tree.num_failed == 1
    assert tree.root.visits == 2
    check(tree)


@pytest.mark.parametrize("wave", [1, 4])
def test_an_action_that_can_not_be_drawn_for_now_is_tried_again_in_the_next_wave(wave):
    problem, drawn = game(letters="ab", length=2)

    async def expand(node, action, rollout):
        found = await problem.expand(node, action, rollout)
        return None if action == "a" and rollout < 3 else found

    tree = run(replace(problem, expand=expand), rollouts=20, wave=wave)
    assert sorted(node.state for node in tree.terminals) == ["aa", "ab", "ba", "bb"]
    assert not any(node.dead_actions or node.postponed for node in tree.root.subtree())
    assert len(drawn) > 6
    check(tree)


def test_actions_beside_the_rollouts_are_drawn_once_and_rewarded_as_ends():
    problem, drawn = game(letters="a", length=1, outcomes=2)
    side_actions = replace(
        problem, legal_actions=lambda state, dead: ["b"], side_actions=("a",), is_terminal=bool
    )
    tree = run(side_actions, rollouts=9)
    assert [(node.state, node.visits) for node in tree.root.children] == [
        ("b", 1), ("B", 1), ("a", 1), ("A", 1),
    ]  # fmt: skip
    assert sorted((action, rollout) for _, action, rollout in drawn) == [("a", 0), ("b", 0)]
    assert tree.root.visits == tree.num_rollouts + 2
    assert tree.root.value == near(sum(worth(node.state) for node in tree.terminals))
    again = run(side_actions, rollouts=9, revisits=True)
    assert [node.visits for node in again.root.children if node.action == "a"] == [1, 1], "by no rollout"
    assert again.num_rollouts == 9
    in_vain = run(replace(side_actions, side_actions=("a",), expand=vain), rollouts=2)
    assert in_vain.root.dead_actions == {"a", "b"}
    assert in_vain.num_failed == 1


async def vain(node, action, rollout):
    return []


def test_no_rollout_starts_without_room():
    problem, _ = game(may_start=lambda rollout: rollout < 2)
    assert run(problem, rollouts=9).num_rollouts == 2


def test_the_weight_of_the_bonus_falls_as_the_schedule_says():
    assert Airrag(rollouts=10).weight(5) == 2.0
    assert Airrag(rollouts=10, schedule="linear").weight(5) == near(2 * 0.55)
    assert Airrag(rollouts=10, schedule="exponential").weight(10) == near(0.2)


def test_a_failure_ends_the_search_and_all_of_its_wave():
    going_on = []

    async def expand(node, action, rollout):
        if node.state and action == "b":
            raise ValueError("broken")
        await asyncio.sleep(0.01 * bool(node.state))
        going_on.append(node.state)
        return [ActionOutcome(node.state + action)]

    problem, _ = game()
    broken = SearchProblem(
        problem.legal_actions, expand, problem.is_terminal, lambda *_: "a", problem.rewards
    )
    with pytest.raises(ValueError, match="broken"):
        run(broken, rollouts=8)
    assert len(going_on) < 8


def check(tree):
    """Check the invariants of every tree."""
    for node in tree.root.subtree():
        ends = [each for each in node.subtree() if each.is_terminal]
        assert node.value == near(sum(each.num_rewarded * each.reward for each in ends))
        assert node.visits == sum(each.num_rewarded for each in ends)
        assert all(child.parent is node for child in node.children)
        assert not node.has_pending_rollout
    assert tree.num_rollouts == tree.root.visits + tree.num_failed


many_games = {
    "letters": st.sampled_from(["a", "ab", "abc"]),
    "length": st.integers(1, 4),
    "outcomes": st.integers(1, 2),
    "dead": st.sets(st.text("abc", min_size=1, max_size=4), max_size=6),
}
many_settings = {
    "rollouts": st.integers(1, 24),
    "wave": st.integers(1, 5),
    "expansion": st.sampled_from(["lazy", "eager"]),
    "revisits": st.booleans(),
    "unexplored": st.sampled_from(["first", "random"]),
    "seed": st.sampled_from(["1", "2"]),
}


def relative(terminals):
    """Return rewards that change with every terminal found."""
    best = max(worth(each.state) for each in terminals)
    return [worth(each.state) / best if best else 0.0 for each in terminals]


@settings(max_examples=150, deadline=None)
@given(st.fixed_dictionaries(many_games), st.fixed_dictionaries(many_settings), st.integers())
def test_visits_and_values_add_up_and_timing_changes_nothing(made, chosen, seed):
    problem, _ = game(**made, rewards=relative)
    tree = run(problem, **chosen)
    check(tree)
    slow, _ = game(**made, rewards=relative, delays=random.Random(seed))
    assert shape(run(slow, **chosen)) == shape(tree)
    names = [node.name for node in tree.root.subtree()]
    assert len(names) == len(set(names))
    if not chosen["revisits"]:
        assert all(node.num_rewarded == 1 for node in tree.terminals)
