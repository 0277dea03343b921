"""The settings that a scaling run compares: every method of a grid at values of five axes.

The axes are `passages` (k), `l_max`, `samples` (n), `rollouts` (R) and `share`, the share of the documents in
the database. AirRAG has all of them. A baseline, which is any other method, has `l_max` and `share`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from askance.configuration.grid import Grid, Table
from askance.configuration.methods import method_class
from askance.core.errors import GridError, InputError
from askance.methods.airrag.method import Airrag

PARAMETERS = ("passages", "l_max", "samples", "rollouts")
SHARE = "share"
AXES = (*PARAMETERS, SHARE)
_OF_BASELINES = ("l_max", SHARE)
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
    def name(self) -> str:
        """The name without the share, such as ``airrag,passages=3,l_max=none``."""
        return ",".join((self.method, *(f"{axis}={shown(self.values[axis])}" for axis in self._parameters)))

    def run(self, dataset: str, model: str) -> str:
        """Return the name of the run's folder in the folder of the runs."""
        share = f",share={shown(self.share)}" if SHARE in self.values else ""
        return f"{dataset}{share}/{model}/{self.name}"

    @property
    def _parameters(self) -> list[str]:
        return [axis for axis in PARAMETERS if axis in self.values]

    def table(self, table: Table) -> Table:
        """Return the method's table of the grid with the parameters of this setting."""
        key = "parameters" if "parameters" in table else "set"
        own = {axis: shown(self.values[axis]) for axis in self._parameters}
        return {"method": self.method, **table, key: {**table.get(key, {}), **own}}

    def is_on_curve(self, axis: str, axes: Axes) -> bool:
        """Return whether every other axis has its first value, so that the setting is on the axis's curve."""
        return all(value == axes[other][0] for other, value in self.values.items() if other != axis)


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
        is_airrag = issubclass(method_class(table.get("method", method)), Airrag)
        own = {axis: axes[axis] for axis in (AXES if is_airrag else _OF_BASELINES) if axis in axes}
        for values in product(*(dict.fromkeys(values) for values in own.values())):
            num_changed = sum(value != own[axis][0] for axis, value in zip(own, values, strict=True))
            if num_changed < 2 or not one_at_a_time:
                settings.append(Setting(method, dict(zip(own, values, strict=True)), is_airrag))
    if not any(setting.is_airrag for setting in settings):
        raise GridError(
            f"{grid.place} has no method airrag or airrag_lite, to measure the scaling of: "
            "add [methods.airrag]."
        )
    return settings


def grid_at(
    grid: Grid,
    settings: Sequence[Setting],
    share: float,
    names: Sequence[str],
    metrics: Sequence[str],
    index: str = "",
) -> Grid:
    """Return the grid of the settings with this share of the documents.

    Args:
        index: The folder of the database; empty for that of the grid.
    """
    here = [setting for setting in settings if setting.share == share]
    datasets: dict[str, Mapping[str, Any]] = {
        here[0].run(name, "").split("/")[0]: {**grid.datasets[name], **({"index": index} if index else {})}
        for name in names
    }
    methods = {setting.name: setting.table(grid.methods[setting.method]) for setting in here}
    return replace(grid, datasets=datasets, methods=methods, common={**grid.common, "metrics": list(metrics)})
