"""What runs are called beside each other: as short as tells them apart."""

from collections.abc import Callable, Sequence
from pathlib import Path

from askance.core.knobs import titled
from askance.eval.recorded_run import RecordedRun
from askance.eval.settings import Settings


def names_of(runs: Sequence[RecordedRun]) -> tuple[str, ...]:
    """The method with its profile and the knobs that other runs of it set otherwise; where that repeats, with
    what else differs; where that does, too, the folder.
    """
    choices: tuple[Callable[[RecordedRun], str], ...] = (
        lambda run: _brief(run.settings, runs),
        lambda run: _distinguished(run, runs),
        lambda run: run.folder.resolve().name,
    )
    for choose in choices:
        names = tuple(choose(run) for run in runs)
        if len(set(names)) == len(runs):
            return names
    return tuple(str(run.folder) for run in runs)


def _distinguished(run: RecordedRun, runs: Sequence[RecordedRun]) -> str:
    """The brief name, and after it what is not the same in the other runs of this name."""
    name = _brief(run.settings, runs)
    namesakes = [_marks(other.settings) for other in runs if _brief(other.settings, runs) == name]
    own = _marks(run.settings)
    told = [own[key] for key in own if len({marks.get(key) for marks in namesakes}) > 1]
    return ", ".join((name, *told))


def _brief(settings: Settings, runs: Sequence[RecordedRun]) -> str:
    """``dragin (paper, threshold=1.3)`` where another run has another threshold, else ``dragin (paper)``."""
    others = [run.settings for run in runs if run.settings.method == settings.method]
    told = [
        f"{knob}={value}"
        for knob, value in set_knobs(settings).items()
        if any(other.knobs.get(knob) != value for other in others)
    ]
    return titled(settings.method, settings.profile, told)


def set_knobs(settings: Settings) -> dict[str, str]:
    """The knobs that are not at their defaults, without the profile, which every name has: those that the
    title tells.
    """
    return {
        knob: value
        for knob, value in settings.knobs.items()
        if knob != "profile" and (f"({knob}=" in settings.title or f", {knob}=" in settings.title)
    }


def _marks(settings: Settings) -> dict[str, str]:
    models = {
        role: spec if role == "answer" else f"{role}={spec}" for role, spec in settings.model_specs.items()
    }
    index = Path(settings.index).name or "no index"
    return {
        **models,
        "index": index,
        "retriever": settings.retriever,
        "encoder": f"encoder {settings.encoder.partition(',')[0]}" if settings.encoder else "no encoder",
        "seed": f"seed {settings.seed}",
        "reading": f"reading={settings.reading}",
        "askance": f"askance {settings.askance}",
    }
