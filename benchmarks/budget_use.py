r"""Measure the fraction of the token budget L_max that methods use when they show as many passages as fit.

    python -m benchmarks.budget_use --out FOLDER

The collection has `--collection` passages of `--words` words. Every query returns them in the same order, but
starts at a different passage. The scripted model has a context window of `--window` tokens (a token is a word
or a punctuation mark). It writes the plan that is named in the row of the table. Each cell has the fraction
of L_max that was used, then the numbers of passages in the first retrieval prompt and in the summary prompt.
FOLDER/use.json has the same numbers.
"""

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from recipes.command_line import markdown, parser_of

from askance.ask import Result, ask
from askance.cli.main import exit_codes
from askance.core.ports import Method
from askance.core.trace import Generated
from askance.core.types import Hit, Passage, Question
from askance.methods.airrag.method import Airrag, AirragLite
from askance.methods.baselines import Single
from askance.methods.blender import Blender
from askance.methods.common.named_methods import Members
from askance.methods.iterdrag import Iterdrag
from askance.models.scripted import ScriptedModel

QUESTION = Question("q", "Where does the creek under the bridge end?")
PLANS = {"no plan": "None", "a plan of 2": "Which creek is it?\nWhere does that creek end?"}
L_MAX = {"8k": 8192, "32k": 32768, "128k": 131072}


def rows(l_max: int) -> dict[str, tuple[Method, str]]:
    """Return the methods, limited to L_max, each with the plan that the model writes for it."""
    parameters: dict[str, Any] = {"passages": 0, "l_max": l_max}
    members = Members(
        (
            ("single", Single(passages=0)),
            ("iterdrag", Iterdrag(passages=0)),
            ("airrag_lite", AirragLite(passages=0)),
            ("airrag", Airrag(passages=0)),
        )
    )
    found: dict[str, tuple[Method, str]] = {"single": (Single(**parameters), "")}
    found["iterdrag"] = Iterdrag(**parameters), ""
    for plan, said in PLANS.items():
        found[f"airrag, {plan}"] = Airrag(**parameters), said
    found["airrag, R=8, a plan of 2"] = Airrag(rollouts=8, **parameters), PLANS["a plan of 2"]
    found["airrag_lite"] = AirragLite(**parameters), ""
    found["blender, a plan of 2"] = Blender(methods=members, l_max=l_max), PLANS["a plan of 2"]
    return found


class Shelf:
    """A retriever of equally long passages in a fixed order, whose first hit depends on the query."""

    name = "shelf"
    fingerprint = ""

    def __init__(self, num_passages: int, num_words: int) -> None:
        text = " ".join(["word"] * num_words)
        self._passages = [Passage(str(n), f"Title {n}", text) for n in range(num_passages)]

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        begin = sum(map(ord, query)) % len(self._passages)
        found = (self._passages[begin:] + self._passages[:begin])[:k]
        return tuple(Hit(each, 1 / rank, rank) for rank, each in enumerate(found, start=1))


def playing(plan: str) -> ScriptedModel:
    """Return a scripted model that writes the plan, and a fixed reply to each other kind of prompt."""

    def reply(shown: str, key: tuple[str | int, ...]) -> str:
        script = {"say": plan, "qt": "None", "line": "Follow up: Which creek is it?", "da": "the sea"}
        return next((script[str(each)] for each in key if each in script), "the river")

    return ScriptedModel(reply)


def use(method: Method, plan: str, options: argparse.Namespace) -> Result:
    """Return the result of answering the question once."""
    model = playing(plan)
    model.context_tokens = options.window
    shelf = Shelf(options.collection, options.words)
    return asyncio.run(ask(QUESTION, method, {"answer": model}, shelf))


def cell(result: Result, l_max: int) -> dict[str, float]:
    """Return the fraction of L_max that was used, and the numbers of passages in two prompts.

    The two prompts are the first RA prompt and the last SA prompt. If a method has no such prompt, the
    greatest number of passages in any prompt stands in.
    """
    prompts = {event.key: event for event in result.trace.events if isinstance(event, Generated)}
    shown = {str(key[-1]): event.prompt.count("Title ") for key, event in reversed(prompts.items())}
    last = {str(key[-1]): event.prompt.count("Title ") for key, event in prompts.items()}
    read = sum(event.prompt_tokens for event in prompts.values())
    most = max((each.prompt.count("Title ") for each in prompts.values()), default=0)
    return {"share": read / l_max, "first": shown.get("ra", most), "last": last.get("sa", most)}


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--collection", type=int, default=5000, help="passages that there are")
    parser.add_argument("--words", type=int, default=100, help="of a passage")
    parser.add_argument("--window", type=int, default=200_000, help="of the model, in tokens")
    parser.add_argument("--out", type=Path, required=True, help="folder for use.json")
    options = parser.parse_args(arguments)
    with exit_codes():
        table: dict[str, dict[str, dict[str, float]]] = {}
        for title, l_max in L_MAX.items():
            for name, (method, plan) in rows(l_max).items():
                table.setdefault(name, {})[title] = cell(use(method, plan, options), l_max)
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "use.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        lines = [
            [name, *(f"{each['share']:.0%} ({each['first']:g}, {each['last']:g})" for each in cells.values())]
            for name, cells in table.items()
        ]
        print(markdown(["method", *L_MAX], lines))


if __name__ == "__main__":
    main()
