"""The setup of a benchmark of methods: a model, an index and questions."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from askance.ask import Engine
from askance.configuration.build import load_model, open_retriever
from askance.configuration.methods import make_method
from askance.core.ports import Retriever
from askance.core.types import Question
from askance.models.llama_cpp import LlamaModel
from askance.retrieval.index.build import build_index
from askance.sample import CORPUS, QUESTIONS
from benchmarks.plain import Plain


@dataclass(frozen=True)
class Setup:
    """The setup of a benchmark.

    Attributes:
        folder: The folder for the index and the files of models.
        num_questions, num_repeats: The number of questions of each row, and the number of repeats.
    """

    spec: str
    folder: Path
    num_questions: int
    num_repeats: int
    _plain: dict[bool, Plain] = field(default_factory=dict)

    @cached_property
    def model(self) -> LlamaModel:
        return loaded(self.spec)

    @cached_property
    def index(self) -> Path:
        build_index([CORPUS], self.folder / "index")
        return self.folder / "index"

    @cached_property
    def retriever(self) -> Retriever:
        return open_retriever(self.index)

    def plain(self, *, flash: bool = True) -> Plain:
        """Return the measurement of plain forward passes with the model's weights.

        There is one such measurement with flash attention and one without, and both are reused.
        """
        if flash not in self._plain:
            self._plain[flash] = Plain(self.model, flash=flash)
        return self._plain[flash]

    def engine(self, name: str, model: Any, settings: Mapping[str, Any] = {}) -> Engine:
        method = make_method(name, settings, model=self.spec)
        return Engine(method, {"answer": model}, self.retriever)

    def questions(self, number: int, first: int = 0) -> list[Question]:
        return sample_questions()[first : first + number]


def sample_questions() -> list[Question]:
    """Return the questions about the sample corpus."""
    rows = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    return [Question(row["id"], row["question"]) for row in rows]


def loaded(spec: str) -> LlamaModel:
    """Load a model, which must be one that llama.cpp computes."""
    model = load_model(spec)
    if not isinstance(model, LlamaModel):
        raise SystemExit(f"--model {spec}: it is not computed by llama.cpp; name one that is.")
    return model
