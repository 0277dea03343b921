"""The runs of the study: every method at every number of hops, the reward model, and independent paths.

OUT/runs/           a run folder for each number of hops and method
OUT/replies.sqlite  the replies of the model, which runs that differ in choosing alone share
OUT/reward/         the reward model, a regression on features of paths
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

from askance.configuration.build import load_models
from askance.configuration.grid import Grid
from askance.core.errors import AskanceError
from askance.evaluation.run.record import Record
from askance.evaluation.run.recorded_run import RecordedRun
from askance.evaluation.run.runner import LoadModels, loading_once
from askance_lab.training.reward.feature_reward import FILE, read_feature_reward
from askance_lab.training.reward.labelled_states import RewardResult, states_of_run
from askance_lab.training.reward.train_features import (
    FeatureSettings,
    result_of_features,
    train_features,
)
from studies.airrag_scaling.equal_tokens import paths_at_equal_tokens
from studies.depth.teaching import PASSAGES, SETTINGS
from studies.depth.world import HOPS
from studies.shared import try_runs

METRIC = "exact_match"
MOST_PATHS = 64
_IN_FLIGHT = 16
_ONE = {
    "passages": PASSAGES,
    "actions": "say,ra,qt,sa",  # nothing can be known by heart, so a direct answer would be a guess
    "max_tokens": 96,
}
_TREE = {**_ONE, "rollouts": 8, "samples": 3, "answer_samples": 3}
SINGLE, DRAGIN, SELFRAG, ITERDRAG = "single", "dragin", "selfrag", "iterdrag"
ONE, TREE, RM, RM_VOTE, PATHS = "airrag-1", "airrag-8", "airrag-8-rm", "airrag-8-rm_vote", "paths"
METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    SINGLE: ("single", {"passages": PASSAGES}),
    DRAGIN: ("dragin", {"passages": PASSAGES}),
    SELFRAG: ("selfrag", {"passages": PASSAGES, "mode": "always"}),
    ITERDRAG: ("iterdrag", {"passages": PASSAGES}),
    ONE: ("airrag", {**_ONE, "verifier": "vote"}),
    TREE: ("airrag", {**_TREE, "verifier": "vote"}),
    RM: ("airrag", {**_TREE, "verifier": "rm"}),
    RM_VOTE: ("airrag", {**_TREE, "verifier": "rm_vote"}),
}
"""The method and the parameters of each run. `PATHS` has those of `TREE`, apart from the search."""
REWARD = FeatureSettings(held_out=0.0)
Records = Mapping[int, Sequence[Record]]
"""The records of a method by number of hops."""


@dataclass(frozen=True, slots=True)
class Made:
    """All runs of the study.

    Attributes:
        records: The records of each method.
        num_paths: The mean number of independent paths by number of hops.
        reward: How well the reward model separates steps of the asked questions; None if all of these
            steps led to right answers, or none did.
    """

    records: Mapping[str, Records]
    num_paths: Mapping[int, float]
    reward: RewardResult | None


@dataclass(frozen=True, slots=True)
class Runner:
    """A maker of runs in a folder, which loads each model once.

    Attributes:
        spec: The specification of the model that answers.
    """

    out: Path
    spec: str
    load: LoadModels

    @classmethod
    def of(cls, out: Path, spec: str = "") -> "Runner":
        """Return a runner for the taught model, or another one."""
        return cls(out, spec or f"hf:{out / 'reader'}?dtype={SETTINGS.precision}", loading_once(load_models))

    def run(self, name: str, method: str, parameters: Mapping[str, Any], dataset: str) -> RecordedRun:
        """Make a run of a dataset, such as "hops-2", or complete it.

        Raises:
            AskanceError: The run failed.
        """
        models = {"answer": self.spec}
        if str(parameters.get("verifier", "")).startswith("rm"):
            models["reward"] = f"features:{self.out / 'reward'}"
        grid = Grid(
            datasets={dataset: {"questions": f"jsonl:{self.out / dataset}.jsonl"}},
            methods={name: {"method": method, "set": dict(parameters)}},
            models={"taught": models},
            common={
                "index": str(self.out / "index"),
                "retriever": "bm25",
                "metrics": [METRIC, "supporting_recall"],
                "cache": str(self.out / "replies.sqlite"),
                "in_flight": _IN_FLIGHT,
            },
        )
        ready = grid.prepare()
        ((_, run),) = try_runs(ready, self.out / "runs", self.load).items()
        if isinstance(run, AskanceError):
            raise run
        return run

    def make_all(self) -> Made:
        """Make all runs and the reward model, or complete them."""
        records = dict[str, dict[int, Sequence[Record]]]()
        for name in METHODS:
            if name == RM:  # the first method that needs the reward model
                reward = self._train_reward()
            records[name] = {hops: self.run(name, *METHODS[name], f"hops-{hops}").records for hops in HOPS}
        records[PATHS], num_paths = {}, dict[int, float]()
        for hops, tree in records[TREE].items():
            records[PATHS][hops], num_paths[hops] = self._paths(hops, tree)
        return Made(records, num_paths, reward)

    def _train_reward(self) -> RewardResult | None:
        """Train the reward model, or load it, and measure it on the trees of the questions that are asked."""
        folder, trees = self.out / "reward", partial(self.run, TREE, *METHODS[TREE])
        if folder.exists():
            reward = read_feature_reward(folder / FILE)
        else:
            reward, _ = train_features({"training": trees("training")}, REWARD, folder)
        asked = (f"hops-{hops}" for hops in HOPS)
        states = (states_of_run(name, trees(name), REWARD.states, REWARD.seed) for name in asked)
        return result_of_features(reward, [*chain.from_iterable(states)])

    def _paths(self, hops: int, tree: Sequence[Record]) -> tuple[Sequence[Record], float]:
        """Return the records of independent paths that take as many tokens as a tree."""

        def rows_of(number: int) -> Sequence[Record]:
            parameters = {**METHODS[TREE][1], "search": "paths", "rollouts": number}
            return self.run(f"{PATHS}-{number}", "airrag", parameters, f"hops-{hops}").records

        tokens_of = attrgetter("usage.tokens")
        wanted = sum(map(tokens_of, tree)) / len(tree)
        return paths_at_equal_tokens(rows_of, tokens_of, wanted, most=MOST_PATHS)
