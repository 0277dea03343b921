"""The settings that a scaling run compares: every method of a grid at values of five axes.

The axes are `passages` (k), `l_max`, `samples` (n), `rollouts` (R) and `share`, the share of the documents in
the database. A method has the share, and the axes that are parameters of it and not set by its table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from askance.configuration.grid import Grid, Table
from askance.configuration.methods import defaults_of, method_class
from askance.core.errors import GridError, InputError
from askance.methods.airrag.method import Airrag

PARAMETERS = ("passages", "l_max", "samples", "rollouts")
SHARE = "share"
AXES = (*PARAMETERS, SHARE)
Axes = Mapping[str, Sequence[float | None]]
"""The values of each axis that varies or is set, the first of which the curves over other axes use. None
stands for no limit."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A method of the grid with a value of each of its axes.

    Attributes:
        method: The name of the method's table in the grid.
        values: The value of each axis that was asked for.
    """

    method: str
    values: Mapping[str, float | None]
    is_airrag: bool = True

    @property
    def share(self) -> float:
        """The share of the documents that are in the database."""
        return self.values.get(SHARE) or 1.0

    @property
    def parameters(self) -> dict[str, str]:
        """The values of the method's parameters as text."""
        return {axis: shown(self.values[axis]) for axis in PARAMETERS if axis in self.values}

    @property
    def name(self) -> str:
        """The name without the share, such as ``airrag,passages=3,l_max=none``."""
        return ",".join((self.method, *(f"{axis}={value}" for axis, value in self.parameters.items())))

    def run(self, dataset: str, model: str) -> str:
        """Return the name of the run's folder in the folder of the runs."""
        return f"{self.dataset(dataset)}/{model}/{self.name}"

    def dataset(self, name: str) -> str:
        """Return the name of a dataset together with the share."""
        return f"{name},share={shown(self.share)}" if SHARE in self.values else name

    def is_on_curve(self, axis: str, axes: Axes) -> bool:
        """Return whether the setting has the axis, and every other axis has its first value."""
        others = {name: value for name, value in self.values.items() if name != axis}
        return axis in self.values and all(value == axes[name][0] for name, value in others.items())


def order(value: float | None) -> tuple[bool, float]:
    """Return the key by which values of an axis are sorted; no limit is the greatest one."""
    return value is None, value or 0.0


def shown(value: float | None) -> str:
    """Return a value of an axis as text."""
    return "none" if value is None else f"{value:.10g}"


def settings_of(grid: Grid, axes: Axes, *, one_at_a_time: bool = False) -> list[Setting]:
    """Return the settings of a grid at all combinations of the axes' values.

    Args:
        axes: The values of the axes that were asked for.
        one_at_a_time: Whether at most one axis of a setting differs from the first value.

    Raises:
        GridError: The grid has no AirRAG method.
        InputError: A share is not above 0 and at most 1.
    """
    for share in axes.get(SHARE, ()):
        if share is None or not 0 < share <= 1:
            raise InputError(
                f"--share {shown(share)}: give shares of the documents above 0 and at most 1, such as 0.25."
            )
    settings = []
    for method, table in grid.methods.items():
        cls = method_class(table.get("method", method))
        own = {SHARE, *defaults_of(cls)} - table.get(_key(table), {}).keys()
        varied = {axis: dict.fromkeys(axes[axis]) for axis in AXES if axis in axes and axis in own}
        for values in product(*varied.values()):
            setting = Setting(method, dict(zip(varied, values, strict=True)), issubclass(cls, Airrag))
            num_changed = sum(value != axes[axis][0] for axis, value in setting.values.items())
            if num_changed < 2 or not one_at_a_time:
                settings.append(setting)
    if not any(setting.is_airrag for setting in settings):
        raise GridError(
            f"{grid.place} has no method airrag or airrag_lite, to measure the scaling of: "
            "add [methods.airrag]."
        )
    return settings


def _key(table: Table) -> str:
    """Return the key of a method's table that holds its parameters."""
    return "parameters" if "parameters" in table else "set"


def grid_at(
    grid: Grid,
    settings: Sequence[Setting],
    names: Sequence[str],
    metrics: Sequence[str],
    index: Path | None = None,
) -> Grid:
    """Return the grid of some datasets and of settings that have the same share of the documents.

    Args:
        index: The folder of the database; None for that of the grid.
    """
    given, methods = {"index": str(index)} if index else {}, dict[str, Table]()
    for setting in settings:
        table = grid.methods[setting.method]
        parameters = {**table.get(_key(table), {}), **setting.parameters}
        methods[setting.name] = {"method": setting.method, **table, _key(table): parameters}
    datasets = {settings[0].dataset(name): {**grid.datasets[name], **given} for name in names}
    return replace(grid, datasets=datasets, methods=methods, common={**grid.common, "metrics": [*metrics]})
