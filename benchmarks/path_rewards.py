r"""Measure a reward model on features, and the answers it chooses, in a world of independent errors.

    python -m benchmarks.path_rewards --out FOLDER

The world is that of `benchmarks.independent_paths`. The reward model (`askance train reward --kind features`)
learns from the trees of some questions, its AUC is measured on others, and on others again a tree chooses by
`rm_vote` and by `vote`. FOLDER/rewards.json has all numbers. The command exits with 1 if the AUC is below
0.75, or `rm_vote` is worse than `vote` beyond the interval.
"""

import asyncio
from dataclasses import replace
from pathlib import Path

from recipes.command_line import markdown, parser_of

from askance.cli.main import exit_codes
from askance.core.ports import FeatureScorer
from askance.evaluation.report.trees import steps_of
from askance.evaluation.statistics.compare import mean_interval, paired_difference
from askance.evaluation.statistics.roc import shown_area
from askance.methods.airrag.method import Airrag
from askance_lab.training.reward.feature_reward import FeatureReward
from askance_lab.training.reward.labelled_states import LabelledState, RewardResult, states_of_question
from askance_lab.training.reward.train_features import FeatureSettings, fit_reward
from benchmarks.independent_paths import (
    ACTIONS,
    HOPS,
    World,
    add_world,
    engine_of,
    finish,
    gold_of,
    in_points,
    question_of,
    rows_of,
    world_of,
)

MIN_AREA = 0.75


def trained(world: World, method: Airrag, numbers: range) -> tuple[FeatureReward, RewardResult | None]:
    """Return a regression that learned from the trees of some questions, and its held-out results."""

    async def states() -> list[LabelledState]:
        found, engine = list[LabelledState](), engine_of(world, method)
        for number in numbers:
            for hops in HOPS:
                question = question_of(number, hops)
                trace = (await engine.answer(question)).trace
                steps = steps_of(trace.events, [gold_of(world, number, hops)])
                found += states_of_question(question.id, question.text, steps, 100, question.id)
        return found

    return fit_reward(asyncio.run(states()), FeatureSettings(held_out=0.4))


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--questions", type=int, default=60, help="questions of each number of hops")
    parser.add_argument("--training", type=int, default=40, help="others to train with")
    parser.add_argument("--rollouts", type=int, default=8, help="rollouts of a tree")
    parser.add_argument("--samples", type=int, default=3, help="samples of each reply")
    add_world(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder for rewards.json")
    options = parser.parse_args(arguments)
    with exit_codes():
        world, num = world_of(options), options.questions
        vote = Airrag(
            rollouts=options.rollouts,
            samples=options.samples,
            answer_samples=options.samples,
            verifier="vote",
            actions=ACTIONS,
        )
        reward, result = trained(world, vote, range(num, num + options.training))
        assert result is not None, "questions of both kinds are held out"
        areas = {
            "the reward, all steps": result.area,
            "the reward, answers": result.of_answers,
            "the consistency, answers": result.by_consistency,
        }
        print(markdown(["held out", "AUC"], [[name, shown_area(area)] for name, area in areas.items()]))
        coefficients = {each.name: each.coefficient for each in reward.features}
        print(markdown(["feature", "coefficient"], [[name, f"{c:+.2f}"] for name, c in coefficients.items()]))
        model = FeatureScorer("features:trained", "trained", reward.probability)
        methods = {
            "vote": (vote, None),
            "rm": (replace(vote, verifier="rm"), model),
            "rm_vote": (replace(vote, verifier="rm_vote"), model),
            "rm_vote, in the search": (replace(vote, verifier="rm_vote", reward="rm"), model),
        }
        right = {
            name: {
                f"{hops} {number}": row.is_right
                for hops in HOPS
                for number, row in enumerate(rows_of(world, hops, range(num), method, judge))
            }
            for name, (method, judge) in methods.items()
        }
        lines, differences = [], {}
        for name, scores in right.items():
            mean, less = mean_interval([*scores.values()]), paired_difference(scores, right["vote"])
            differences[name] = [less.mean, less.low, less.high]
            by_hops = [
                f"{sum(scores[f'{hops} {number}'] for number in range(num)) / num:.2f}" for hops in HOPS
            ]
            lines.append([name, *by_hops, f"{mean.mean:.3f}", in_points(less)])
        head = ["verifier", *(f"{hops} hops" for hops in HOPS), "all", "less vote, points"]
        print(markdown(head, lines))
        kept = {
            "auc": {name: [area.area, area.low, area.high] for name, area in areas.items()},
            "coefficients": coefficients,
            "accuracy": {name: sum(scores.values()) / len(scores) for name, scores in right.items()},
            "less vote": differences,
        }
        flaws = []
        if result.area.area < MIN_AREA:
            flaws.append(f"the AUC is {result.area.area:.3f}")
        if differences["rm_vote"][2] < 0:
            flaws.append("rm_vote is worse than vote")
        finish(options.out / "rewards.json", kept, flaws)


if __name__ == "__main__":
    main()
