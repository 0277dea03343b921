"""Runs that may be held against each other, those over the same questions: what they are called, and the
settings that differ.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from askance.core.errors import InputError, RunFolderError, UnknownName
from askance.core.parameters import titled
from askance.evaluation.run.record import Settings
from askance.evaluation.run.recorded_run import RecordedRun

_SHOWN_CHARACTERS = 60
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{20,}\b")
_SAME = ("question", "task", "options", "golds")
# A method's name stands in every table, and its loaded models are told by the names they were asked for.
_NOT_TOLD = re.compile(r"method|dataset|.* \(loaded\)")


@dataclass(frozen=True, slots=True)
class Differing:
    """A setting that not all runs of a group share: each value with the names of the runs that have it."""

    setting: str
    values: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def is_told_by_names(self) -> bool:
        """Whether it is the profile, or a parameter that the names of all runs have but those of one
        value.
        """
        parameter = self.setting.removeprefix("parameter ")
        if parameter == "profile":
            return True
        untold = [names for _, names in self.values if not all(f"{parameter}=" in name for name in names)]
        return parameter != self.setting and len(untold) < 2

    @property
    def line(self) -> str:
        """As told above a table."""
        *rare, (common, names) = sorted(self.values, key=lambda value: len(value[1]))
        told = [f"{value} ({', '.join(runs)})" for value, runs in rare]
        last = ", ".join(names) if len(names) < 3 else "the others"
        return f"{self.setting}: {'; '.join(told)}; {common} ({last})"


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs over the same questions of one dataset.

    Attributes:
        whole: the runs as they are in their folders.
        runs: the same, with the questions that all of them have finished; a run alone keeps all of its own.
        names: one a run, no two alike.
    """

    whole: tuple[RecordedRun, ...]
    runs: tuple[RecordedRun, ...]
    names: tuple[str, ...]

    @property
    def dataset(self) -> str:
        """As the first run named it."""
        return self.runs[0].settings.dataset

    @property
    def differing(self) -> tuple[Differing, ...]:
        """The settings that differ, without parameters that only one method has or that names tell."""
        told = [_told_settings(run.settings) for run in self.whole]
        keys = dict.fromkeys(key for settings in told for key in settings)
        found = [self._differing(key, told) for key in keys]
        return tuple(each for each in found if len(each.values) > 1 and not each.is_told_by_names)

    @property
    def shared_parameters(self) -> dict[str, str]:
        """Parameters that are not at their defaults, and have one value in all runs that have them."""
        parameters = dict(item for run in self.whole for item in set_parameters(run.settings).items())
        return {
            parameter: value
            for parameter, value in parameters.items()
            if all(run.settings.parameters.get(parameter, value) == value for run in self.whole)
        }

    def _differing(self, setting: str, told: Sequence[Mapping[str, str]]) -> Differing:
        names: dict[str, list[str]] = {}
        for name, settings in zip(self.names, told, strict=True):
            if setting in settings or not setting.startswith("parameter "):
                names.setdefault(settings.get(setting) or "none", []).append(name)
        return Differing(setting, tuple((_shortened(value), tuple(runs)) for value, runs in names.items()))


def group_runs(runs: Sequence[RecordedRun], *, common: bool = False) -> tuple[RunGroup, ...]:
    """The runs by dataset, in the order given; runs of one dataset that share no question are apart, too.

    Args:
        common: keep the questions that all runs of a group have finished, and leave out the others.

    Raises:
        InputError: a run given twice; or, unless `common`, runs of a group with other questions.
        RunFolderError: a run without a finished question; or, unless `common`, one that is not finished.
    """
    groups: list[list[RecordedRun]] = []
    folders = set[Path]()
    for run in runs:
        if run.folder.resolve() in folders:
            raise InputError(f"the run {run.folder} is given more than once: give each run once.")
        folders.add(run.folder.resolve())
        if not run.records:
            raise RunFolderError(f"the run {run.folder} has no finished question yet: leave it out.")
        group = next((group for group in groups if _share_questions(group[0], run)), None)
        group.append(run) if group is not None else groups.append([run])
    return tuple(_group(group, common) for group in groups)


def places_of(base: str | None, groups: Sequence[RunGroup]) -> list[int]:
    """Where the run called `base` is in each group; the first one in groups without it, or without a base.

    Args:
        base: its folder, its name in tables, or its method where only one run is of it.

    Raises:
        UnknownName: no group has it.
    """
    found = [None if base is None else _place_of(base, group) for group in groups]
    if base is not None and all(place is None for place in found):
        known = [name for group in groups for name in group.names]
        raise UnknownName("run", base, known, place="in --base (and no such folder among the runs given)")
    return [place or 0 for place in found]


def _place_of(base: str, group: RunGroup) -> int | None:
    runs = list(enumerate(group.whole))
    of_folder = [place for place, run in runs if run.folder.resolve() == Path(base).resolve()]
    of_name = [place for place, name in enumerate(group.names) if name == base]
    of_method = [place for place, run in runs if run.settings.method == base]
    return next((found[0] for found in (of_folder, of_name, of_method) if len(found) == 1), None)


def _share_questions(first: RecordedRun, second: RecordedRun) -> bool:
    texts = {record.id: record.question for record in first.records}
    return first.settings.dataset_name == second.settings.dataset_name and any(
        texts.get(record.id) == record.question for record in second.records
    )


def _group(whole: Sequence[RecordedRun], common: bool) -> RunGroup:
    runs = tuple(whole)
    if len(runs) > 1:
        if not common:
            _check_same_questions(runs)
        runs = _narrowed(runs)
    return RunGroup(tuple(whole), runs, names_of(whole))


def _known(run: RecordedRun) -> dict[str, dict[str, object]]:
    """What must be the same of a question in all runs of a group, by its id."""
    return {record.id: {name: getattr(record, name) for name in _SAME} for record in run.records}


def _check_same_questions(runs: Sequence[RecordedRun]) -> None:
    for run in runs:
        if not run.is_complete:
            raise RunFolderError(
                f"the run {run.folder} is not finished ({len(run.records)} of {run.settings.num_questions} "
                "questions): run the `askance eval` that began it again, or compare the questions that all "
                "runs have with --common."
            )
    first, *others = runs
    of_first = _known(first)
    for other in others:
        of_other = _known(other)
        differing = [id for id in {**of_first, **of_other} if of_first.get(id) != of_other.get(id)]
        if differing:
            one, two = of_first.get(differing[0]), of_other.get(differing[0])
            if one is None or two is None:
                how = f"is in {first.folder if two is None else other.folder} only"
            else:
                what = next(what for what in one if one[what] != two[what])
                how = f"has other {what} there ({two[what]!r}, not {one[what]!r})"
            raise InputError(
                f"{first.folder} and {other.folder} are not over the same questions: {differing[0]!r} {how}, "
                f"and so for {len(differing)} in all. Compare the questions that all runs have with --common."
            )


def _narrowed(runs: Sequence[RecordedRun]) -> tuple[RecordedRun, ...]:
    """The runs with the questions that all of them have, with the same text and accepted answers."""
    first, *others = map(_known, runs)
    ids = {id for id, known in first.items() if all(other.get(id) == known for other in others)}
    if not ids:
        listing = ", ".join(str(run.folder) for run in runs)
        raise InputError(f"the runs {listing} have no finished question in common: leave one out.")
    narrowed = []
    for run in runs:
        records = tuple(record for record in run.records if record.id in ids)
        narrowed.append(replace(run, records=records, settings=replace(run.settings, num_questions=len(ids))))
    return tuple(narrowed)


def _told_settings(settings: Settings) -> dict[str, str]:
    identity = {key: str(value) for key, value in settings.identity.items() if not _NOT_TOLD.fullmatch(key)}
    versions = {f"version of {package}": version for package, version in settings.versions.items()}
    return {
        **identity,
        "reading": settings.reading,
        "index": Path(settings.index).name,
        **versions,
        "machine": settings.machine,
    }


def _shortened(value: str) -> str:
    value = _HASH.sub(r"\1…", value)
    return value if len(value) <= _SHOWN_CHARACTERS else value[: _SHOWN_CHARACTERS - 1] + "…"


def names_of(runs: Sequence[RecordedRun]) -> tuple[str, ...]:
    """The method with its profile and the parameters that other runs of it set otherwise; where that
    repeats, with what else differs; where that does, too, the folder.
    """
    choices = (
        [_brief(run.settings, runs) for run in runs],
        [_distinguished(run, runs) for run in runs],
        [run.folder.resolve().name for run in runs],
        [str(run.folder) for run in runs],
    )
    return next(tuple(names) for names in choices if len(set(names)) == len(runs))


def _distinguished(run: RecordedRun, runs: Sequence[RecordedRun]) -> str:
    """The brief name, and after it what is not the same in the other runs of this name."""
    name = _brief(run.settings, runs)
    namesakes = [_marks(other.settings) for other in runs if _brief(other.settings, runs) == name]
    own = _marks(run.settings).items()
    told = [f"{key}={value}" for key, value in own if any(marks.get(key) != value for marks in namesakes)]
    return ", ".join((name, *told))


def _brief(settings: Settings, runs: Sequence[RecordedRun]) -> str:
    """``dragin (paper, threshold=1.3)`` where another run has another threshold, else ``dragin (paper)``."""
    others = [run.settings for run in runs if run.settings.method == settings.method]
    told = [
        f"{parameter}={value}"
        for parameter, value in set_parameters(settings).items()
        if any(other.parameters.get(parameter) != value for other in others)
    ]
    return titled(settings.method, settings.profile, told)


def set_parameters(settings: Settings) -> dict[str, str]:
    """The parameters that are not at their defaults, without the profile, which every name has: those that
    the title tells.
    """
    return {
        parameter: value
        for parameter, value in settings.parameters.items()
        if parameter != "profile"
        and (f"({parameter}=" in settings.title or f", {parameter}=" in settings.title)
    }


def _marks(settings: Settings) -> dict[str, str]:
    return {
        **settings.model_specs,
        "index": Path(settings.index).name or "none",
        "retriever": settings.retriever,
        "encoder": settings.encoder.partition(",")[0] or "none",
        "seed": str(settings.seed),
        "reading": settings.reading,
        "askance": settings.askance,
    }
