"""Groups of runs over the same questions, which can be compared: their names and the settings that differ."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from askance.core.errors import InputError, RunFolderError, UnknownName
from askance.core.spec import parse_method
from askance.evaluation.run.record import CODE, Settings
from askance.evaluation.run.recorded_run import RecordedRun

_SHOWN_CHARACTERS = 60
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{20,}\b")
_OWN_FILES = ("jsonl", "csv")
_SAME = ("question", "task", "options", "golds")
# Every table already names the method, and models are shown by the names that the user gave.
_NOT_SHOWN = re.compile(r"method|dataset|.* \(loaded\)")


@dataclass(frozen=True, slots=True)
class DifferingSetting:
    """A setting that differs within a group of runs.

    Attributes:
        values: Each value with the names of the runs that have it.
    """

    setting: str
    values: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def is_in_names(self) -> bool:
        """Return whether the names of the runs already show the setting.

        They show a parameter if at most one of its values appears in no name, and the seed if all appear.
        """
        parameter = self.setting.removeprefix("parameter ")
        hidden = [names for _, names in self.values if not all(f"{parameter}=" in name for name in names)]
        return len(hidden) < 2 if parameter != self.setting else self.setting == "seed" and not hidden

    @property
    def line(self) -> str:
        """The line about the setting that is printed above a table."""
        *rare, (common, names) = sorted(self.values, key=lambda value: len(value[1]))
        exceptions = [f"{value} ({', '.join(runs)})" for value, runs in rare]
        last = ", ".join(names) if len(names) < 3 else "the others"
        return f"{self.setting}: {'; '.join(exceptions)}; {common} ({last})"


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The runs over the same questions of one dataset.

    Attributes:
        dataset: The name of the dataset, or of its file if others have the same name (see `headings_of`).
        whole: The runs as they are in their folders.
        runs: The same runs with only the questions that all of them have finished.
        names: A unique name for each run.
    """

    dataset: str
    whole: tuple[RecordedRun, ...]
    runs: tuple[RecordedRun, ...]
    names: tuple[str, ...]

    @property
    def differing(self) -> tuple[DifferingSetting, ...]:
        """The settings that differ between the runs, except for settings that the names of the runs show.

        For a parameter, only the runs whose method has this parameter are compared.
        """
        by_run = [_shown_settings(run.settings) for run in self.whole]
        keys = dict.fromkeys(key for settings in by_run for key in settings)
        all_settings = [self._differing(key, by_run) for key in keys]
        return tuple(each for each in all_settings if len(each.values) > 1 and not each.is_in_names)

    @property
    def shared_parameters(self) -> dict[str, str]:
        """The parameters with a non-default value that is the same in all runs that have the parameter."""
        parameters = dict(item for run in self.whole for item in non_default_parameters(run.settings).items())
        return {
            parameter: value
            for parameter, value in parameters.items()
            if all(run.settings.parameters.get(parameter, value) == value for run in self.whole)
        }

    def seeds_of(self, index: int) -> dict[int, int]:
        """Return the runs that differ from the run at `index` in their seed alone, and that run, by seed."""
        keys = [{**run.settings.identity, "seed": "", "read by": run.settings.reading} for run in self.whole]
        same = [each for each, key in enumerate(keys) if key == keys[index]]
        by_seed = {self.whole[each].settings.seed: each for each in same}
        return by_seed if len(by_seed) == len(same) else {self.whole[index].settings.seed: index}

    def _differing(self, setting: str, settings_of_runs: Sequence[Mapping[str, str]]) -> DifferingSetting:
        names: dict[str, list[str]] = {}
        for name, settings in zip(self.names, settings_of_runs, strict=True):
            if setting in settings or not setting.startswith("parameter "):
                names.setdefault(settings.get(setting) or "none", []).append(name)
        values = ((_shortened(value), tuple(runs)) for value, runs in names.items())
        return DifferingSetting(setting, tuple(values))


def group_runs(runs: Sequence[RecordedRun], *, common: bool = False) -> tuple[RunGroup, ...]:
    """Group runs by dataset, in the order given.

    Runs over the same dataset are in different groups if they have no question in common.

    Args:
        common: Whether to keep only the questions that all runs of a group have finished.

    Raises:
        InputError: A run is given twice, or the runs of a group have different questions and `common` is
            False.
        RunFolderError: A run has no finished question, or a run in a group of several is unfinished and
            `common` is False.
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
    headings = headings_of([group[0].settings.dataset for group in groups])
    return tuple(_group(heading, group, common) for heading, group in zip(headings, groups, strict=True))


def headings_of(datasets: Sequence[str]) -> list[str]:
    """Return a unique heading for each dataset ``NAME:FILE``.

    It is the name, or the name of a file of one's own. If that is not unique, it is all that the user gave.
    """
    parts = [each.partition("?")[0].partition(":") for each in datasets]
    named = [(name, Path(place).name) for name, _, place in parts]
    brief = [file if name in _OWN_FILES else name for name, file in named]
    choices = (brief, [":".join(filter(None, each)) for each in named], list(datasets))
    return [
        next((each[at] for each in choices if each.count(each[at]) == 1), f"{brief[at]} ({at + 1})")
        for at in range(len(datasets))
    ]


def base_indices(base: str | None, groups: Sequence[RunGroup]) -> list[int]:
    """Return the index of the base run in each group. A group without that run has its first run as the base.

    Args:
        base: The run's folder, its name in tables, or its method if only one run has that method.

    Raises:
        UnknownName: No group has such a run.
    """
    indices = [None if base is None else _base_index(base, group) for group in groups]
    if base is not None and all(index is None for index in indices):
        known = [name for group in groups for name in group.names]
        raise UnknownName("run", base, known, place="in --base (and no such folder among the runs given)")
    return [index or 0 for index in indices]


def _base_index(base: str, group: RunGroup) -> int | None:
    runs = list(enumerate(group.whole))
    by_folder = [index for index, run in runs if run.folder.resolve() == Path(base).resolve()]
    by_name = [index for index, name in enumerate(group.names) if name == base]
    by_method = [index for index, run in runs if run.settings.method == base]
    return next((indices[0] for indices in (by_folder, by_name, by_method) if len(indices) == 1), None)


def _share_questions(first: RecordedRun, second: RecordedRun) -> bool:
    texts = {record.id: record.question for record in first.records}
    return first.settings.dataset_name == second.settings.dataset_name and any(
        texts.get(record.id) == record.question for record in second.records
    )


def _group(heading: str, whole: Sequence[RecordedRun], common: bool) -> RunGroup:
    runs = tuple(whole)
    if len(runs) > 1:
        if not common:
            _check_same_questions(runs)
        runs = _narrowed(runs)
    return RunGroup(heading, tuple(whole), runs, names_of(whole))


def _known(run: RecordedRun) -> dict[str, dict[str, object]]:
    """Return the fields of each question that must be the same in all runs of a group, by question id."""
    return {record.id: {name: getattr(record, name) for name in _SAME} for record in run.records}


def _check_same_questions(runs: Sequence[RecordedRun]) -> None:
    for run in runs:
        if not run.is_complete:
            raise RunFolderError(
                f"the run {run.folder} is not finished ({len(run.records)} of {run.settings.num_questions} "
                "questions): run its `askance eval` command again, or compare only the questions that all "
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
                problem = f"is only in {first.folder if two is None else other.folder}"
            else:
                field = next(field for field in one if one[field] != two[field])
                problem = f"differs in {field} ({two[field]!r} there, not {one[field]!r})"
            raise InputError(
                f"{first.folder} and {other.folder} have different questions ({len(differing)} in all): "
                f"{differing[0]!r} {problem}. Compare only the questions that all runs have with --common."
            )


def _narrowed(runs: Sequence[RecordedRun]) -> tuple[RecordedRun, ...]:
    """Return the runs with only those questions that are finished, and have the same text, in all runs.

    The task, the options and the gold answers must also be the same.
    """
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


def _shown_settings(settings: Settings) -> dict[str, str]:
    identity = {key: str(value) for key, value in settings.identity.items() if not _NOT_SHOWN.fullmatch(key)}
    versions = {f"version of {package}": version for package, version in settings.versions.items()}
    return {
        **identity,
        **{f"{CODE}{name}": source for name, source in settings.code.items()},
        "reading": settings.reading,
        "index": Path(settings.index).name,
        **versions,
        "machine": settings.machine,
        "questions in flight": settings.in_flight,
    }


def _shortened(value: str) -> str:
    value = _HASH.sub(r"\1…", value)
    return value if len(value) <= _SHOWN_CHARACTERS else value[: _SHOWN_CHARACTERS - 1] + "…"


def names_of(runs: Sequence[RecordedRun]) -> tuple[str, ...]:
    """Return a unique name for each run.

    A name consists of the method and the parameters that differ between the runs of this
    method. If these names are not unique, other settings that differ are added. As a last resort, the names
    are the folders.
    """
    choices = (
        [_brief(run.settings, runs) for run in runs],
        [_distinguished(run, runs) for run in runs],
        [run.folder.resolve().name for run in runs],
        [str(run.folder) for run in runs],
    )
    return next(tuple(names) for names in choices if len(set(names)) == len(runs))


def _distinguished(run: RecordedRun, runs: Sequence[RecordedRun]) -> str:
    """Return the brief name, followed by the settings in which runs with the same brief name differ."""
    name = _brief(run.settings, runs)
    namesakes = [_marks(other.settings) for other in runs if _brief(other.settings, runs) == name]
    own = _marks(run.settings).items()
    marks = [f"{key}={value}" for key, value in own if any(other.get(key) != value for other in namesakes)]
    return ", ".join((name, *marks))


def _brief(settings: Settings, runs: Sequence[RecordedRun]) -> str:
    """Return a brief name, such as ``dragin_paper(threshold=1.3)``.

    It shows only those parameters whose values differ between the runs of the method.
    """
    others = [run.settings for run in runs if run.settings.method == settings.method]
    changed = [
        f"{parameter}={value}"
        for parameter, value in non_default_parameters(settings).items()
        if any(other.parameters.get(parameter) != value for other in others)
    ]
    return f"{settings.method}({', '.join(changed)})" if changed else settings.method


def non_default_parameters(settings: Settings) -> dict[str, str]:
    """Return the non-default parameters, which are the ones that the title shows.

    The title shows the members of a method in place of the parameter `methods`.
    """
    try:
        shown = set(parse_method(settings.title).options)
    except InputError:  # the title of another version
        shown = set()
    shown |= {"methods"} if shown - set(settings.parameters) else set()
    return {parameter: value for parameter, value in settings.parameters.items() if parameter in shown}


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
