"""Save a finished cross-encoder: weights, loss curve and model card, all in one atomic step."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from askance.evaluation.statistics.roc import RocArea, shown_area
from askance_lab.training.loop.model_card import render_card, write_card
from askance_lab.training.loop.model_folder import model_folder
from askance_lab.training.loop.schedule import TrainingSchedule
from askance_lab.training.loop.trainer import TrainingStatus
from askance_lab.training.relevance.cross_encoder import PairBatch
from askance_lab.training.relevance.export import write_onnx
from askance_lab.training.relevance.pairs import PairMix
from askance_lab.training.relevance.settings import RelevanceSettings

_TEMPLATE = Path(__file__).with_name("model_card.md.jinja")
_PACKAGES = ("torch", "transformers")


@dataclass(frozen=True, slots=True)
class HeldOutResult:
    """The results of the cross-encoder on the held-out pairs of one dataset and task.

    Attributes:
        area: The area under the ROC curve of the cross-encoder's score.
        by_bm25: The same of BM25's score; None for support, which BM25 does not judge.
        by_length: The same of the passage's length in words, which should be near 0.5.
    """

    num_pairs: int
    area: RocArea
    by_bm25: RocArea | None
    by_length: RocArea


@dataclass(slots=True)
class RelevanceReport:
    """A report on a training run that is either about to start or finished.

    Attributes:
        held_out: The results on held-out pairs by "dataset, task".
        device: The device and precision of the computation, such as "cpu in float32".
        export_error: The reason why there is no `model.onnx`; an empty string if there is one.
    """

    base: str
    settings: RelevanceSettings
    pairs: PairMix
    schedule: TrainingSchedule[PairBatch]
    curve: tuple[TrainingStatus, ...] = ()
    held_out: Mapping[str, HeldOutResult] = field(default_factory=dict)
    device: str = ""
    export_error: str = ""


def write_cross_encoder(out: Path, module: Any, tokenizer: Any, report: RelevanceReport) -> None:
    """Write all files into a temporary folder beside `out`, then rename it.

    Raises:
        InputError: The folder can't be written. The last checkpoint is kept.
    """
    with model_folder(out, "cross-encoder") as partial:
        module.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        report.export_error = _export(module, tokenizer, partial, report.settings.max_tokens)
        write_card(partial, model_card(report), report.curve)


def _export(module: Any, tokenizer: Any, folder: Path, max_tokens: int) -> str:
    """Write `model.onnx`, and return the reason if this model can't be exported.

    The trained model is worth saving without it, since torch can run it.
    """
    try:
        write_onnx(module, tokenizer, folder, max_tokens)
    except OSError:
        raise
    except Exception as error:  # exporters raise errors of many kinds for models that they don't support
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return ""


def model_card(report: RelevanceReport) -> str:
    """Return the README.md of a cross-encoder."""
    return render_card(
        _TEMPLATE,
        _PACKAGES,
        report.curve,
        report=report,
        shown_area=shown_area,
        values=asdict(report.settings) | {"learning_rate": report.settings.peak_learning_rate},
    )
