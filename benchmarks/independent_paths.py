r"""Compare AirRAG's tree with independent paths, at equal tokens, in a world of independent errors.

    python -m benchmarks.independent_paths --out FOLDER

A question asks where a chain of hops ends. The scripted model plans one sub-query for each hop, and each of
its calls is wrong with a probability of its own: `--say`, `--qt`, `--ra` and `--sa`. Wrong answers are drawn
from `--alternatives` places, so they seldom agree. A tree of `--rollouts` rollouts is measured first, with
one and with three samples of each reply. The number of independent paths with as many samples is then chosen
so that they read and write as many tokens on average: a part of the questions gets one path more than the
others. FOLDER/choosing.json has all numbers. The command exits with 1 if a tree is worse than independent
paths beyond the interval, or the tokens differ by more than 5 %.
"""

import argparse
import asyncio
import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from recipes.airrag_scaling.equal_tokens import paths_at_equal_tokens
from recipes.command_line import markdown, parser_of

from askance.ask import Engine
from askance.cli.main import exit_codes
from askance.core.ports import RoleModel
from askance.core.trace import Decided, Expanded
from askance.core.types import GenerateRequest, Generation, Key, Passage, Question
from askance.evaluation.statistics.compare import MeanInterval, mean_interval, paired_difference
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.parameters import Actions
from askance.methods.airrag.state import QT, RA, SA, SAY
from askance.methods.airrag.verifiers import Verifier
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever

HOPS = (2, 3, 4)
ACTIONS = Actions((SAY, RA, QT, SA))
"""All actions but the direct answer, which knows nothing here."""
MAX_DIFFERENCE = 0.05
"""The greatest difference between the tokens of a tree and those of independent paths, as a share."""
_SAMPLES = {"1 sample": 1, "3 samples": 3}
_VERIFIERS: tuple[Verifier, ...] = ("jcd", "vote")
_QUERY = re.compile(r"Where does hop (\d+) lead from (\w+)\?")
_ANSWERED = re.compile(r"Where does hop \d+ lead from \w+\?\s+(P\d+)")
_QUESTION = re.compile(r"Where do (\d+) hops from (P\d+) end\?")


@dataclass(frozen=True, slots=True)
class World:
    """The world, and how often the model is wrong.

    Attributes:
        say, qt, ra, sa: The probability that a reply of this action is wrong.
        alternatives: The number of places from which wrong answers are drawn.
    """

    say: float
    qt: float
    ra: float
    sa: float
    alternatives: int

    def next(self, place: str, hop: int) -> str:
        """Return the place to which a hop leads."""
        return f"P{random.Random(f'{place} {hop}').randrange(10**6)}"

    def end(self, start: str, hops: int) -> str:
        """Return the place at the end of a chain."""
        place = start
        for hop in range(1, hops + 1):
            place = self.next(place, hop)
        return place

    def reply(self, shown: str, key: Key) -> str:
        """Return the reply of the model to a prompt."""
        rng = random.Random(repr(key))
        action = next(str(part) for part in key if part in ("say", "qt", "ra", "sa"))
        is_wrong, wrong = rng.random() < getattr(self, action), f"P{rng.randrange(self.alternatives)}"
        if action == "say":
            hops, start = _QUESTION.findall(shown)[-1]
            sources = [start, *["there"] * (int(hops) - 1)][: int(hops) - is_wrong]
            return "\n".join(f"Where does hop {hop} lead from {each}?" for hop, each in enumerate(sources, 1))
        if action == "ra":
            hop, place = _QUERY.findall(shown)[-1]
            return wrong if is_wrong else self.next(place, int(hop))
        answers = _ANSWERED.findall(shown)
        if action == "qt":
            queries = _QUERY.findall(shown.rpartition("Next query:")[2])
            if not queries:
                return "None"
            hop, place = queries[0]
            right = answers[-1] if place == "there" and answers else place
            return f"Where does hop {hop} lead from {wrong if is_wrong else right}?"
        final: str = ["", *answers][-2 if is_wrong and len(answers) > 1 else -1]
        return final


class IndependentSamples(ScriptedModel):
    """A scripted model whose samples of one prompt are replies of their own."""

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        written = list[Generation]()
        for number in range(request.n):
            written += await super().generate(replace(request, n=1, key=(*request.key, number)))
        return tuple(written)


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one question.

    Attributes:
        is_right: 1 if the chosen answer is right, else 0.
        has_candidate: 1 if a right answer was among the candidates, else 0.
    """

    is_right: float
    has_candidate: float
    num_tokens: float
    num_calls: float


def question_of(number: int, hops: int) -> Question:
    """Return a question with so many hops."""
    return Question(f"{hops}-{number}", f"Where do {hops} hops from {_start(number)} end?")


def gold_of(world: World, number: int, hops: int) -> str:
    """Return the right answer of a question."""
    return world.end(_start(number), hops)


def _start(number: int) -> str:
    return f"P{10**6 + number}"


def engine_of(world: World, method: Airrag, reward: RoleModel | None = None) -> Engine:
    """Return an engine whose model plays the world."""
    model = IndependentSamples(world.reply, context_tokens=100_000, capabilities=frozenset({"raw"}))
    retriever = ScriptedRetriever([Passage("1", "Hops", " ".join(["word"] * 100))])
    return Engine(
        method, {"answer": model} if reward is None else {"answer": model, "reward": reward}, retriever
    )


async def row_of(
    world: World, number: int, hops: int, method: Airrag, reward: RoleModel | None = None
) -> Row:
    """Answer one question."""
    result = await engine_of(world, method, reward).answer(question_of(number, hops))
    (spent,) = (
        event for event in result.trace.events if isinstance(event, Decided) and event.name == "budget"
    )
    nodes = [event for event in result.trace.events if isinstance(event, Expanded)]
    gold = gold_of(world, number, hops)
    found = any(node.text == gold for node in nodes if "reward" in node.numbers)
    is_right = float(result.answer.text == gold)
    return Row(is_right, float(found), spent.numbers["tokens"], spent.numbers["calls"])


def rows_of(
    world: World, hops: int, numbers: Iterable[int], method: Airrag, reward: RoleModel | None = None
) -> list[Row]:
    """Answer all questions with so many hops."""

    async def all_rows() -> list[Row]:
        return [await row_of(world, number, hops, method, reward) for number in numbers]

    return asyncio.run(all_rows())


def paths_at(world: World, hops: int, num_questions: int, base: Airrag, wanted: float) -> list[Row]:
    """Answer all questions by independent paths that read and write `wanted` tokens on average."""

    def paths(number: int) -> list[Row]:
        method = replace(base, search="paths", rollouts=number, verifier="vote")
        return rows_of(world, hops, range(num_questions), method)

    return paths_at_equal_tokens(paths, lambda row: row.num_tokens, wanted)[0]


def mean_tokens(rows: Sequence[Row]) -> float:
    """Return the mean number of tokens that questions read and wrote."""
    return sum(row.num_tokens for row in rows) / len(rows)


def add_world(parser: argparse.ArgumentParser) -> None:
    """Add the options that `world_of` reads."""
    parser.add_argument("--say", type=float, default=0.1, help="probability that a plan is wrong")
    parser.add_argument("--qt", type=float, default=0.1, help="probability that a transformation is wrong")
    parser.add_argument("--ra", type=float, default=0.3, help="probability that an answer is wrong")
    parser.add_argument("--sa", type=float, default=0.1, help="probability that a summary is wrong")
    parser.add_argument("--alternatives", type=int, default=50, help="places of wrong answers")


def world_of(options: argparse.Namespace) -> World:
    """Return the world that options describe."""
    return World(options.say, options.qt, options.ra, options.sa, options.alternatives)


def finish(file: Path, numbers: Mapping[str, Any], flaws: Sequence[str]) -> None:
    """Write all numbers as JSON, print what missed its goal, and exit with 1 if anything did."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    for flaw in flaws:
        print(f"missed: {flaw}")
    if flaws:
        raise SystemExit(1)


def in_points(difference: MeanInterval) -> str:
    """Return a difference of accuracies in points, with its interval."""
    mean, low, high = (100 * each for each in (difference.mean, difference.low, difference.high))
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--questions", type=int, default=300, help="questions of each number of hops")
    parser.add_argument("--rollouts", type=int, default=8, help="rollouts of a tree")
    add_world(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder for choosing.json")
    options = parser.parse_args(arguments)
    with exit_codes():
        world, base = world_of(options), Airrag(rollouts=options.rollouts, actions=ACTIONS)
        lines, kept, flaws = [], dict[str, Any](), list[str]()
        for hops in HOPS:
            for (name, samples), verifier in product(_SAMPLES.items(), _VERIFIERS):
                sampled = replace(base, samples=samples, answer_samples=samples, verifier=verifier)
                name = f"{name}, {verifier}"
                tree = rows_of(world, hops, range(options.questions), sampled)
                if verifier == _VERIFIERS[0]:  # a verifier without a call changes no token of the tree
                    paths = paths_at(world, hops, options.questions, sampled, mean_tokens(tree))
                difference = paired_difference(
                    *({f"{i}": row.is_right for i, row in enumerate(rows)} for rows in (tree, paths))
                )
                tokens = mean_tokens(paths) / mean_tokens(tree) - 1
                one, other = (mean_interval([row.is_right for row in rows]) for rows in (tree, paths))
                found = sum(row.has_candidate for row in tree) / len(tree)
                means = [f"{one.mean:.2f} ({found:.2f})", f"{other.mean:.2f}", in_points(difference)]
                lines.append([f"{hops}", name, *means, f"{mean_tokens(tree):,.0f}", f"{tokens:+.1%}"])
                kept[f"{hops} hops, {name}"] = {
                    "tree": one.mean,
                    "candidates": found,
                    "paths": other.mean,
                    "difference": [difference.mean, difference.low, difference.high],
                    "tokens": [mean_tokens(tree), mean_tokens(paths)],
                    "calls": [sum(row.num_calls for row in rows) / len(rows) for rows in (tree, paths)],
                }
                if difference.high < 0:
                    flaws.append(f"{name} is worse than independent paths at {hops} hops")
                if abs(tokens) > MAX_DIFFERENCE:
                    flaws.append(f"the tokens of {name} at {hops} hops differ by {tokens:+.1%}")
        head = ["hops", "tree", "right (among candidates)", "independent paths", "difference, points"]
        print(markdown([*head, "tokens", "of the paths"], lines))
        finish(options.out / "choosing.json", kept, flaws)


if __name__ == "__main__":
    main()
