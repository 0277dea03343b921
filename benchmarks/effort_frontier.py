r"""Draw accuracy over tokens for AirRAG at low to auto effort, in a world of independent errors.

    python -m benchmarks.effort_frontier --out FOLDER
    python -m benchmarks.effort_frontier --first 1000 --questions 160 --preset --out FOLDER

The world is that of `benchmarks.independent_paths`, and the settings are those of the presets effort/low to
effort/auto. `stop_lead` of auto is calibrated as `askance calibrate --metric … --price …` does it, on
questions that are not among those measured; --preset measures the value that the preset has, on questions
from number --first on. FOLDER/effort.json has all numbers, and FOLDER/effort.svg the
plot, if matplotlib is installed. The command exits with 1 if auto is more than one point less accurate than
high, or reads and writes more than 60 % of its tokens.
"""

import asyncio
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from recipes.command_line import markdown, parser_of

from askance.cli.main import exit_codes
from askance.configuration.evaluation import open_metrics
from askance.configuration.presets import open_preset
from askance.core.parameters import parse_parameters
from askance.evaluation.choose.calibrate import Calibration, calibrate
from askance.evaluation.choose.goals import ScoreGoal
from askance.evaluation.datasets import Example
from askance.evaluation.statistics.compare import mean_interval, paired_difference
from askance.methods.airrag.method import Airrag
from benchmarks.independent_paths import (
    ACTIONS,
    HOPS,
    Row,
    World,
    add_world,
    engine_of,
    finish,
    gold_of,
    in_points,
    mean_tokens,
    question_of,
    rows_of,
    world_of,
)

LEVELS = ("low", "medium", "high", "auto")
MAX_LOSS = 0.01
"""The most accuracy that auto may lose, as a share of the questions."""
_TRIALS = 9
MAX_TOKENS = 0.6
"""The most tokens that auto may take, as a share of those of high."""


def method_at(level: str) -> Airrag:
    """Return AirRAG with the settings of a preset, without the direct answer, which knows nothing here."""
    settings = parse_parameters(Airrag, open_preset(f"effort/{level}").parameters(Airrag, {}))
    return Airrag(**{**settings, "actions": ACTIONS})


def calibrated(world: World, numbers: range, price: float) -> Calibration:
    """Return the best `stop_lead`, starting from one that no search reaches: a path has a vote a sample."""
    auto = method_at("auto")
    examples = [
        Example(question_of(number, hops), (gold_of(world, number, hops),))
        for number in numbers
        for hops in HOPS
    ]
    engine = engine_of(world, replace(auto, stop_lead=float(auto.rollouts * auto.answer_samples + 1)))
    goal = ScoreGoal(open_metrics(["exact_match"]), price=price)
    return asyncio.run(calibrate(engine, examples, goal, parameter="stop_lead", max_trials=_TRIALS))


def draw(points: dict[str, tuple[float, float, float, float]], file: Path) -> None:
    """Draw accuracy with its interval over tokens per question."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "effort"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    fixed = [points[level] for level in LEVELS[:3]]
    axes.plot([each[0] for each in fixed], [each[1] for each in fixed], color="0.7", zorder=1)
    for level, (tokens, mean, low, high) in points.items():
        axes.errorbar(tokens, mean, [[mean - low], [high - mean]], fmt="o", capsize=3, label=level)
    axes.set(xlabel="tokens per question", ylabel="accuracy", xscale="log")
    axes.legend(title="effort", loc="lower right")
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--questions", type=int, default=80, help="questions of each number of hops")
    parser.add_argument("--first", type=int, default=0, help="the number of the first question")
    parser.add_argument("--preset", action="store_true", help="stop_lead of the preset, not calibrated here")
    parser.add_argument("--calibration", type=int, default=40, help="others to calibrate with")
    parser.add_argument("--price", type=float, default=0.0005, help="accuracy that 1,000 tokens must gain")
    add_world(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder for effort.json and effort.svg")
    options = parser.parse_args(arguments)
    with exit_codes():
        world, end = world_of(options), options.first + options.questions
        stop_lead, tried = method_at("auto").stop_lead, list[tuple[float, float, float]]()
        if not options.preset:
            found = calibrated(world, range(end, end + options.calibration), options.price)
            assert found.value is not None, "one of the values tried is the best"
            stop_lead = found.value
            tried = [(row.value, row.score.mean, row.tokens) for row in found.table if row.score is not None]
            table = [[f"{value:g}", f"{score:.3f}", f"{tokens:,.0f}"] for value, score, tokens in tried]
            print(markdown(["stop_lead", "accuracy on calibration questions", "tokens"], table))
        rows: dict[str, list[Row]] = {}
        for level in LEVELS:
            method = method_at(level)
            method = replace(method, stop_lead=stop_lead) if level == "auto" else method
            asked = range(options.first, end)
            rows[level] = [row for hops in HOPS for row in rows_of(world, hops, asked, method)]
        calibration = {"stop_lead": stop_lead, "price": options.price, "calibration": tried}
        report(rows, calibration, options.out)


def report(rows: dict[str, list[Row]], calibration: dict[str, Any], folder: Path) -> None:
    """Print and write the results, and exit with 1 if auto misses a goal."""
    accuracies = {level: mean_interval([row.is_right for row in rows[level]]) for level in LEVELS}
    points = {
        level: (mean_tokens(rows[level]), each.mean, each.low, each.high)
        for level, each in accuracies.items()
    }
    lines = [
        [level, f"{mean:.3f} ({low:.3f} to {high:.3f})", f"{tokens:,.0f}"]
        for level, (tokens, mean, low, high) in points.items()
    ]
    print(markdown(["effort", "accuracy", "tokens"], lines))
    difference = paired_difference(
        *({f"{i}": row.is_right for i, row in enumerate(rows[level])} for level in ("auto", "high"))
    )
    share = points["auto"][0] / points["high"][0]
    print(
        f"auto at stop_lead={calibration['stop_lead']:g} less high, in points: {in_points(difference)}, "
        f"{share:.0%} of the tokens"
    )
    kept: dict[str, Any] = {
        **calibration,
        "levels": {
            level: dict(zip(("tokens", "accuracy", "low", "high"), each, strict=True))
            for level, each in points.items()
        },
        "auto less high": [difference.mean, difference.low, difference.high],
    }
    flaws = []
    if difference.mean < -MAX_LOSS:
        flaws.append(f"auto is {-100 * difference.mean:.1f} points less accurate than high")
    if share > MAX_TOKENS:
        flaws.append(f"auto takes {share:.0%} of the tokens of high")
    if find_spec("matplotlib"):
        folder.mkdir(parents=True, exist_ok=True)
        draw(points, folder / "effort.svg")
    finish(folder / "effort.json", kept, flaws)


if __name__ == "__main__":
    main()
