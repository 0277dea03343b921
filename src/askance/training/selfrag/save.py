"""Save a finished Self-RAG model: weights, tokenizer, loss curve and model card, in one atomic step."""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from askance.core.errors import MissingExtra, ModelSpecError
from askance.models.hf.load import load_hf, save_parts
from askance.training.loop.model_card import curve_lines
from askance.training.loop.model_folder import model_folder
from askance.training.reader.save import TrainingReport, language_model_card
from askance.training.selfrag.acceptance import MAX_TOKENS, Acceptance, accept
from askance.training.selfrag.group_results import COLUMNS, results_table
from askance.training.selfrag.rows import SelfRagRow
from askance.training.selfrag.settings import SelfRagSettings
from askance.training.selfrag.vocabulary import AddedTokens

OnEnd = Callable[[Acceptance], None]
_TEMPLATE = Path(__file__).with_name("model_card.md.jinja")


class SelfRagWriter:
    """A function that writes a trained model, and that says how far the rows of the new tokens moved.

    Args:
        added: The tokens that were added.
        tokens: The number of each reflection token in the training rows.
        module: The model before training, from which the first values of the new rows are remembered.
        fingerprint: The `weights_fingerprint` of the base before the tokens were added.
        source: The GGUF file that the base was read from, or None.
        held_out: The rows by which the finished model is measured.
        on_end: Called with the measurements.

    Attributes:
        gguf_error: The reason why there is no `model.gguf`; an empty string if there is one.
    """

    def __init__(
        self,
        added: AddedTokens,
        tokens: Counter[str],
        module: Any,
        fingerprint: str,
        source: Path | None = None,
        held_out: Sequence[SelfRagRow] = (),
        on_end: OnEnd = lambda acceptance: None,
    ) -> None:
        self._added, self._tokens, self._fingerprint, self._source = added, tokens, fingerprint, source
        self._held_out, self._on_end = held_out, on_end
        self.gguf_error = "" if source else "the base is not a GGUF file"
        self._before = self._rows(module)

    def __call__(
        self,
        out: Path,
        module: Any,
        tokenizer: Any,
        report: TrainingReport[SelfRagSettings],
        base_fingerprint: str,
        template_digest: str,
    ) -> None:
        """Write all files into a temporary folder beside `out`, then rename it.

        Raises:
            InputError: The folder can't be written. The last checkpoint is kept.
        """
        merged = module.merge_and_unload(safe_merge=True) if report.settings.method == "lora" else module
        with model_folder(out) as partial:
            save_parts(merged, tokenizer, partial)
            for path in partial.glob("*.safetensors"):  # safetensors makes it readable for its owner only
                shutil.copymode(partial / "config.json", path)
            self._write_gguf(partial)
            accepted = self._accept(partial, report.settings)
            card = self._card(report, self._moved(merged), accepted)
            (partial / "README.md").write_text(card, encoding="utf-8")
            (partial / "curve.jsonl").write_text(curve_lines(report.curve), encoding="utf-8")

    def _write_gguf(self, folder: Path) -> None:
        """Write `model.gguf` into the folder of the trained model, if the base came from a GGUF file.

        The trained model is worth saving without it, since torch can run it.
        """
        if self._source is None:
            return
        target = folder / "model.gguf"
        try:
            from askance.models.llama_cpp.trained import write_trained  # needs llama.cpp, which is an extra

            write_trained(self._source, target, folder, self._added.new, matrices="Q8_0")
        except (ModelSpecError, MissingExtra) as error:
            target.unlink(missing_ok=True)
            self.gguf_error = str(error)

    def _rows(self, module: Any) -> torch.Tensor:
        """Return a copy of the input embeddings of the new tokens: shape [tokens, size]."""
        ids = [self._added.ids[token] for token in self._added.new]
        rows: torch.Tensor = module.get_input_embeddings().weight.detach()[ids]
        return rows.clone()

    def _moved(self, module: Any) -> dict[str, float]:
        """Return how far each new row moved, relative to its length before training."""
        after = self._rows(module)
        distances = (after - self._before).norm(dim=1) / self._before.norm(dim=1).clamp(min=1e-12)
        return dict(zip(self._added.new, distances.tolist(), strict=True))

    def _accept(self, folder: Path, settings: SelfRagSettings) -> Acceptance:
        """Measure the model in a folder on the rows that were held out."""
        accepted, limit = Acceptance(), settings.measured
        if self._held_out and limit:
            accepted = accept(load_hf(str(folder)), self._held_out, self._tokens, limit, settings.seed)
        self._on_end(accepted)
        return accepted

    def _card(
        self, report: TrainingReport[SelfRagSettings], moved: dict[str, float], accepted: Acceptance
    ) -> str:
        return language_model_card(
            _TEMPLATE,
            report,
            base_fingerprint=self._fingerprint,
            gguf_error=self.gguf_error,
            accepted=accepted,
            max_tokens=MAX_TOKENS,
            columns=COLUMNS,
            results=results_table(accepted.results),
            tokens=[(token, self._tokens[token], moved.get(token)) for token in self._added.ids],
        )
