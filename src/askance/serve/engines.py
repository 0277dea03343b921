"""The engines of the server: the models are loaded once, and every request names a method and parameters."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from askance.ask import Engine
from askance.configuration.catalogue import METHODS, NAMES
from askance.configuration.methods import make_method, with_members
from askance.configuration.server import ServerConfig
from askance.configuration.thresholds import check_fingerprint
from askance.core.errors import InputError, ParameterError, ThresholdError, UnknownName, about
from askance.core.extensions import known_names
from askance.core.parameters import RELATIVE, is_relative, name_of, search_parameter
from askance.core.ports import Method
from askance.core.spec import parse_method
from askance.serve.search_budget import SearchBudget

PREFIX = "askance/"
"""What the names of models begin with; the name of a method follows."""
_MAX_ENGINES = 64
"""The number of engines that are kept, one for each method with its parameters."""
_SHIPPED = {key: own for key, (_, own) in NAMES.items()} | {"instructions": ("own",), "linguistics": ("own",)}
"""The values that a request may give for parameters that can also name a file or code of the server."""


class Engines:
    """The engines that share the models and the encoder of one configuration.

    Args:
        engine: The engine that `config.open` made, which answers if a request names no method, within the
            budget of searches of the configuration if there is one.

    Raises:
        InputError: There is a budget, and the method has no threshold.

    Attributes:
        default: The name of the method of `engine`.
    """

    def __init__(self, config: ServerConfig, engine: Engine) -> None:
        self.default = name_of(type(engine.method))
        searches = config.searches_per_question
        self._budget = None if searches is None else SearchBudget(searches, engine.method)
        self._config, self._engine = config, engine
        self._known = tuple(dict.fromkeys((self.default, *known_names("methods", METHODS))))
        self._made = lru_cache(_MAX_ENGINES)(self._make)

    def usable_methods(self) -> dict[str, Method]:
        """Return the methods that the models, the index and the encoder support, by name."""
        usable = {}
        for name in self._known:
            try:
                usable[name] = self.engine_for(name).method
            except InputError:
                continue
        return usable

    def engine_for(self, model: str, parameters: Mapping[str, Any] = {}, seed: int | None = None) -> Engine:
        """Return the engine for a request.

        Args:
            model: The method, as ``askance/NAME`` or ``NAME``; "askance" or an empty string is the default.
            parameters: The method's parameters. The default method keeps its configured parameters, prompts
                and preset; any other method starts from its own defaults.
            seed: The seed; by default that of the configuration.

        Raises:
            UnknownName: The method or a parameter is unknown.
            ParameterError: A value has the wrong type, is out of range, or could name a file of the server.
            MissingAbility: The models, the index or the encoder do not meet the method's needs.
            InputError: A threshold is relative to no calibration, or to that of another model.
        """
        name, budget = self.method_name(model), self._budget
        try:
            engine = self._made(name, json.dumps(parameters, sort_keys=True))
        except ThresholdError as error:  # its message has paths of the server
            with about(error.setting):
                raise InputError(error.brief) from error
        if budget is not None and name == self.default and budget.fits(parameters):
            engine = budget.applied(engine)
        return engine if seed is None else replace(engine, seed=seed)

    def method_name(self, model: str) -> str:
        """Return the name of the method that a model stands for (see `engine_for`).

        Raises:
            UnknownName: The method is unknown.
        """
        name = model.removeprefix(PREFIX)
        name = self.default if name in ("", "askance") else name
        if name not in self._known:
            with about("model"):
                raise UnknownName("model", model, [f"{PREFIX}{known}" for known in self._known])
        return name

    def _make(self, name: str, text: str) -> Engine:
        config, engine, parameters = self._config, self._engine, json.loads(text)
        for parameter, value in parameters.items():
            with about(f"parameters.{parameter}"):
                _check_value(parameter, value)
        if name == self.default:
            if not parameters:
                return engine
            in_force = {**config.parameters, **self._kept_threshold(parameters), **parameters}
            text = f"{config.method} {in_force}"
            prompts = None if "prompts" in parameters else config.prompts
            method = make_method(
                config.method or name,
                in_force,
                model=config.answer_spec,
                prompts=prompts,
                preset=config.preset,
            )
        else:
            method = make_method(name, parameters, model=config.answer_spec)
        if RELATIVE.search(text):
            check_fingerprint(with_members(method), engine, config.answer_spec, text)
        roles = method.needs.asked_roles
        models = {role: model for role, model in engine.models.items() if role in roles}
        stored = {**engine.config, "method": name, "parameters": parameters}
        return replace(engine, method=method, models=models, why="", config=stored)

    def _kept_threshold(self, parameters: Mapping[str, Any]) -> dict[str, float]:
        """Return the number of the engine's relative threshold, unless a request changes its basis."""
        method = self._engine.method
        own, given = search_parameter(type(method)), self._config.method
        if own is None or not parameters.keys().isdisjoint((own.name, *own.belongs_to)):
            return {}
        options = parse_method(given).options if isinstance(given, str) else {}
        is_kept = is_relative({**options, **self._config.parameters}.get(own.name))
        return {own.name: getattr(method, own.name)} if is_kept else {}


def _check_value(parameter: str, value: Any) -> None:
    """Raise `ParameterError` for a value that is not a JSON scalar, or that could name a file."""
    if value is not None and not isinstance(value, str | int | float):
        raise ParameterError(
            f"parameter {parameter}={value!r:.99}: expected a number, a word, true, false or null."
        )
    shipped = _SHIPPED.get(parameter.rpartition(".")[2])
    if shipped is not None and value is not None and value not in shipped:
        raise ParameterError(
            f"parameter {parameter}={value!r:.99}: a request can only name {', '.join(shipped)}; anything "
            "else is for the configuration of the server."
        )
