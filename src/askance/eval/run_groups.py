"""Runs that may be held against each other, those over the same questions, and the settings that differ."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from askance.core.errors import InputError, RunFolderError, UnknownName
from askance.eval.record import Record
from askance.eval.recorded_run import RecordedRun
from askance.eval.run_names import names_of, set_knobs
from askance.eval.settings import Settings

_SHOWN_CHARACTERS = 60
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{20,}\b")
# A method's name stands in every table, and its loaded models are told by the names they were asked for.
_NOT_TOLD = re.compile(r"method|dataset|.* \(loaded\)")


@dataclass(frozen=True, slots=True)
class Differing:
    """A setting that not all runs of a group share: each value with the names of the runs that have it."""

    setting: str
    values: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def is_told_by_names(self) -> bool:
        """Whether it is the profile, or a knob that the names of all runs have but those of one value."""
        knob = self.setting.removeprefix("knob ")
        if knob == "profile":
            return True
        untold = [names for _, names in self.values if not all(f"{knob}=" in name for name in names)]
        return knob != self.setting and len(untold) < 2

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
        """The settings that differ, without knobs that only one method has or that names tell."""
        told = [_told_settings(run.settings) for run in self.whole]
        keys = dict.fromkeys(key for settings in told for key in settings)
        found = [self._differing(key, [settings.get(key) for settings in told]) for key in keys]
        return tuple(each for each in found if len(each.values) > 1 and not each.is_told_by_names)

    @property
    def shared_knobs(self) -> dict[str, str]:
        """Knobs that are not at their defaults, and have one value in all runs that have them."""
        knobs = dict(item for run in self.whole for item in set_knobs(run.settings).items())
        return {
            knob: value
            for knob, value in knobs.items()
            if all(run.settings.knobs.get(knob, value) == value for run in self.whole)
        }

    def _differing(self, setting: str, values: Sequence[str | None]) -> Differing:
        names: dict[str, list[str]] = {}
        for name, value in zip(self.names, values, strict=True):
            if value is not None or not setting.startswith("knob "):
                names.setdefault(value or "none", []).append(name)
        return Differing(setting, tuple((_shortened(value), tuple(runs)) for value, runs in names.items()))


def group_runs(runs: Sequence[RecordedRun], *, common: bool = False) -> tuple[RunGroup, ...]:
    """The runs by dataset, in the order given; runs of one dataset that share no question are apart, too.

    Args:
        common: keep the questions that all runs of a group have finished, and leave out the others.

    Raises:
        InputError: a run given twice; or, unless `common`, runs of a group with other questions.
        RunFolderError: a run without a finished question; or, unless `common`, one that is not finished.
    """
    _check_given_once(runs)
    groups: list[list[RecordedRun]] = []
    for run in runs:
        if not run.records:
            raise RunFolderError(f"the run {run.folder} has no finished question yet: leave it out.")
        group = next((group for group in groups if _share_questions(group[0], run)), None)
        group.append(run) if group is not None else groups.append([run])
    return tuple(_group(group, common) for group in groups)


def places_of(base: str, groups: Sequence[RunGroup]) -> list[int]:
    """Where the run called `base` is in each group; the first one in groups without it.

    Args:
        base: its folder, its name in tables, or its method where only one run is of it.

    Raises:
        UnknownName: no group has it.
    """
    found = [_place_of(base, group) for group in groups]
    if all(place is None for place in found):
        known = [name for group in groups for name in group.names]
        raise UnknownName("run", base, known, place="in --base (and no such folder among the runs given)")
    return [place or 0 for place in found]


def _place_of(base: str, group: RunGroup) -> int | None:
    folders = [run.folder.resolve() for run in group.whole]
    if Path(base).resolve() in folders:
        return folders.index(Path(base).resolve())
    if base in group.names:
        return group.names.index(base)
    of_method = [place for place, run in enumerate(group.whole) if run.settings.method == base]
    return of_method[0] if len(of_method) == 1 else None


def _check_given_once(runs: Sequence[RecordedRun]) -> None:
    counts = Counter(run.folder.resolve() for run in runs)
    twice = next((run.folder for run in runs if counts[run.folder.resolve()] > 1), None)
    if twice is not None:
        raise InputError(f"the run {twice} is given more than once: give each run once.")


def _share_questions(first: RecordedRun, second: RecordedRun) -> bool:
    texts = {record.id: record.question for record in first.records}
    return first.settings.dataset_name == second.settings.dataset_name and any(
        texts.get(record.id) == record.question for record in second.records
    )


def _group(whole: Sequence[RecordedRun], common: bool) -> RunGroup:
    if len(whole) > 1 and not common:
        _check_complete(whole)
        _check_same_questions(whole)
    runs = _narrowed(whole) if len(whole) > 1 and common else tuple(whole)
    return RunGroup(tuple(whole), runs, names_of(whole))


def _check_complete(runs: Iterable[RecordedRun]) -> None:
    for run in runs:
        if not run.is_complete:
            raise RunFolderError(
                f"the run {run.folder} is not finished ({len(run.records)} of {run.settings.num_questions} "
                "questions): run the `askance eval` that began it again, or compare the questions that all "
                "runs have with --common."
            )


def _check_same_questions(runs: Sequence[RecordedRun]) -> None:
    first, *others = runs
    of_first = _by_id(first)
    for other in others:
        of_other = _by_id(other)
        differing = [id for id in {**of_first, **of_other} if of_first.get(id) != of_other.get(id)]
        if differing:
            how = _difference(
                first.folder, of_first.get(differing[0]), other.folder, of_other.get(differing[0])
            )
            raise InputError(
                f"{first.folder} and {other.folder} are not over the same questions: {differing[0]!r} {how}, "
                f"and so for {len(differing)} in all. Compare the questions that all runs have with --common."
            )


_Known = tuple[str, str, tuple[str, ...], tuple[str, ...]]


def _by_id(run: RecordedRun) -> dict[str, _Known]:
    return {record.id: _known(record) for record in run.records}


def _known(record: Record) -> _Known:
    return record.question, record.task, record.options, record.golds


def _difference(first_folder: Path, first: _Known | None, other_folder: Path, other: _Known | None) -> str:
    if first is None or other is None:
        return f"is in {first_folder if other is None else other_folder} only"
    at = next(at for at in range(len(first)) if first[at] != other[at])
    what = ("text", "task", "options", "accepted answers")[at]
    return f"has other {what} there ({other[at]!r}, not {first[at]!r})"


def _narrowed(runs: Sequence[RecordedRun]) -> tuple[RecordedRun, ...]:
    """The runs with the questions that all of them have, with the same text and accepted answers."""
    shared = set.intersection(*({(id, known) for id, known in _by_id(run).items()} for run in runs))
    if not shared:
        listing = ", ".join(str(run.folder) for run in runs)
        raise InputError(f"the runs {listing} have no finished question in common: leave one out.")
    ids = {id for id, _ in shared}
    return tuple(_with(run, [record for record in run.records if record.id in ids]) for run in runs)


def _with(run: RecordedRun, records: Sequence[Record]) -> RecordedRun:
    return replace(run, records=tuple(records), settings=replace(run.settings, num_questions=len(records)))


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
