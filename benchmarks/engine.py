"""Count the tokens that methods compute and those that they need."""

import asyncio
from collections.abc import Iterator
from typing import Any

from askance.configuration.catalogue import METHODS
from askance.models.bundled import BUNDLED_BASE
from askance.models.hf.adapter import torch_folder
from askance.models.hf.load import load_hf
from benchmarks.calls import Calls, needed_tokens
from benchmarks.setup import IN_FLIGHT, Setup, ask_all
from benchmarks.table import Row

NUM_QUESTIONS = 8
SHORT = {"max_tokens": 64}
SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {} for name in METHODS if not name.endswith("_authors")},
    "selfrag": {"passages": 3, "max_tokens": 64},
    "airrag": SHORT,
    "airrag_lite": SHORT,
    "iterdrag": {"line_tokens": 32, "answer_tokens": 32},
    "blender": {"methods": "single,iterdrag", "summary_tokens": 32},
    "dragin_authors": {"threshold": 4.0, "max_tokens": 64},  # about three searches per question
}


def computed_and_needed(setup: Setup) -> Iterator[Row]:
    """Compare the tokens that each method computes and needs."""
    model, questions = load_hf(str(torch_folder()), display_name=BUNDLED_BASE), setup.questions(NUM_QUESTIONS)
    base = Setup(BUNDLED_BASE, setup.folder / "base", NUM_QUESTIONS, 1)
    for in_flight in (1, IN_FLIGHT):
        for name, settings in SETTINGS.items():
            asyncio.run(model.clear_cache())
            calls, before = Calls(model), model.computed_tokens
            ask_all(base.engine(name, calls, settings), questions, in_flight)
            computed = model.computed_tokens - before
            ratio = computed / sum(needed_tokens(calls.made))
            yield Row(f"{name}, {in_flight} in flight: computed", computed, "tokens", ratio, "needed")
