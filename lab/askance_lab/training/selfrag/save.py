"""Save a finished Self-RAG model: its weights, its GGUF file and its model card."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from askance.core.errors import MissingExtra, ModelSpecError
from askance.models.hf.load import load_hf, save_parts
from askance_lab.training.reader.save import TrainingReport, language_model_card
from askance_lab.training.reader.train_reader import Base
from askance_lab.training.selfrag.acceptance import MAX_TOKENS, Acceptance, accept
from askance_lab.training.selfrag.group_results import COLUMNS, results_table
from askance_lab.training.selfrag.rows import SelfRagRow
from askance_lab.training.selfrag.settings import SelfRagSettings
from askance_lab.training.selfrag.vocabulary import AddedTokens

OnEnd = Callable[[Acceptance], None]
_TEMPLATE = Path(__file__).with_name("model_card.md.jinja")


class SelfRagWriter:
    """A writer of a trained model, which also measures it and says how far the rows of the new tokens moved.

    Args:
        base: The model before training, from which the first values of the new rows are remembered.
        settings: The settings of the training, with the number of held-out rows to measure by.
        added: The ids of the reflection tokens, and those that are new in the base.
        tokens: The number of each reflection token in the training rows.
        fingerprint: The `weights_fingerprint` of the base before the tokens were added.
        source: The GGUF file that the base was read from, or None.
        held_out: The rows by which the finished model is measured.
        on_end: Called with the measurements.

    Attributes:
        gguf_error: The reason why there is no `model.gguf`; an empty string if there is one.
    """

    def __init__(
        self,
        base: Base,
        settings: SelfRagSettings,
        added: AddedTokens,
        tokens: Counter[str],
        fingerprint: str,
        source: Path | None,
        held_out: Sequence[SelfRagRow],
        on_end: OnEnd,
    ) -> None:
        self._added, self._tokens, self._fingerprint, self._source = added, tokens, fingerprint, source
        self._tokenizer, self._settings = base.tokenizer, settings
        self._held_out, self._on_end = held_out, on_end
        self.gguf_error = "" if source else "the base is not a GGUF file"
        self._before, self._moved = self._rows(base.module), dict[str, float]()

    def save(self, folder: Path, module: Any) -> None:
        """Write the weights and the tokenizer into a folder. An adapter is merged."""
        merged = module.merge_and_unload(safe_merge=True) if self._settings.method == "lora" else module
        save_parts(merged, self._tokenizer, folder)
        for path in folder.glob("*.safetensors"):  # safetensors makes it readable for its owner only
            shutil.copymode(folder / "config.json", path)
        self._write_gguf(folder)
        distances = (self._rows(merged) - self._before).norm(dim=1)
        relative = distances / self._before.norm(dim=1).clamp(min=1e-12)
        self._moved = dict(zip(self._added.new, relative.tolist(), strict=True))

    def _write_gguf(self, folder: Path) -> None:
        """Write `model.gguf` into the folder of the trained model, if the base came from a GGUF file.

        The trained model is worth saving without it, since torch can run it.
        """
        if self._source is None:
            return
        target = folder / "model.gguf"
        try:
            from askance_lab.training.selfrag.trained_gguf import write_trained  # needs llama.cpp, an extra

            write_trained(self._source, target, folder, self._added.new, matrices="Q8_0")
        except (ModelSpecError, MissingExtra) as error:
            target.unlink(missing_ok=True)
            self.gguf_error = str(error)

    def _rows(self, module: Any) -> torch.Tensor:
        """Return a copy of the input embeddings of the new tokens: shape [tokens, size]."""
        ids = [self._added.ids[token] for token in self._added.new]
        rows: torch.Tensor = module.get_input_embeddings().weight.detach()[ids]
        return rows.clone()

    def card(self, folder: Path, report: TrainingReport[SelfRagSettings]) -> str:
        """Measure the model in a folder on the rows that were held out, and return its README.md.

        Call `save` before: it writes the model into the folder, and remembers what the card says about the
        GGUF file and the rows of the new tokens.
        """
        accepted, settings = Acceptance(), self._settings
        if self._held_out and settings.measured:
            model = load_hf(str(folder))
            rows, tokens = self._held_out, self._tokens
            accepted = asyncio.run(accept(model, rows, tokens, settings.measured, settings.seed))
        self._on_end(accepted)
        return language_model_card(
            _TEMPLATE,
            report,
            base_fingerprint=self._fingerprint,
            gguf_error=self.gguf_error,
            accepted=accepted,
            max_tokens=MAX_TOKENS,
            columns=COLUMNS,
            results=results_table(accepted.results),
            tokens=[(token, self._tokens[token], self._moved.get(token)) for token in self._added.ids],
        )
