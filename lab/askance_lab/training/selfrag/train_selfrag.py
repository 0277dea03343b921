"""Train a Self-RAG model from rows with reflection tokens, and write it into a folder."""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from askance.core.errors import InputError
from askance.models.bundled import BUNDLED_BASE, gguf_path
from askance.models.hf.fingerprint import weights_fingerprint
from askance_lab.training.loop.trainer import OnStep
from askance_lab.training.reader.data_mix import DataMix
from askance_lab.training.reader.save import TrainingReport
from askance_lab.training.reader.train_reader import Base, train_language_model
from askance_lab.training.reader.training_example import TrainingExample
from askance_lab.training.selfrag.rows import SelfRagRow, is_held_out, parse_output, training_example
from askance_lab.training.selfrag.save import OnEnd, SelfRagWriter
from askance_lab.training.selfrag.settings import SelfRagSettings
from askance_lab.training.selfrag.vocabulary import add_reflection_tokens


def train_selfrag(
    rows_by_file: Mapping[str, Sequence[SelfRagRow]],
    base: Base,
    settings: SelfRagSettings,
    out: Path,
    on_step: OnStep = lambda status: None,
    on_start: Callable[[TrainingReport[SelfRagSettings], Counter[str]], None] = lambda report, tokens: None,
    on_end: OnEnd = lambda acceptance: None,
    *,
    is_dry_run: bool = False,
) -> TrainingReport[SelfRagSettings]:
    """Train a Self-RAG model, or resume an interrupted training run, and write it into the folder `out`.

    The reflection tokens are added to the vocabulary of the base. The loss covers the answer with its
    reflection tokens, but no prompt and no passage. The result is a whole model, also if an adapter was
    trained: the adapter is merged. Until training is finished, its checkpoints are in a folder beside `out`
    whose name ends in ".training".

    Args:
        rows_by_file: The rows of each file, by the name that reports and the model card show.
        base: The model to start from. Its module and its tokenizer are changed.
        on_start: Called before the first step, with the report on the data, and the number of each reflection
            token in the training rows.
        on_end: Called just before the folder is written, with the measurements on the rows that are held out.
        on_step, is_dry_run: As for `train_reader`.

    Raises:
        InputError: The rows teach nothing, the tokenizer can't take the tokens, or as for `train_reader`.
        TrainingFailed: A loss or a gradient is not finite.
    """
    mix, tokens = data_mix(rows_by_file, settings)
    fingerprint = weights_fingerprint(base.module)
    added = add_reflection_tokens(base.module, base.tokenizer)
    new_ids = tuple(added.ids[token] for token in added.new)
    held_out = [row for rows in rows_by_file.values() for row in rows if is_held_out(row, settings.held_out)]
    source = _gguf_source(base.spec)
    writer = SelfRagWriter(base, settings, added, tokens, fingerprint, source, held_out, on_end)
    return train_language_model(
        lambda model: mix,
        replace(base, new_ids=new_ids),
        settings,
        out,
        on_step,
        lambda report: on_start(report, tokens),
        writer.card,
        writer.save,
        is_dry_run=is_dry_run,
    )


def _gguf_source(spec: str) -> Path | None:
    """Return the GGUF file that a base was read from, or None if it was another kind of file."""
    if spec == BUNDLED_BASE:
        return gguf_path()
    name = spec.removeprefix("hf:")
    return Path(name) if name.endswith(".gguf") and Path(name).is_file() else None


def data_mix(
    rows_by_file: Mapping[str, Sequence[SelfRagRow]], settings: SelfRagSettings
) -> tuple[DataMix, Counter[str]]:
    """Return the training examples of all rows, and the number of each reflection token in them.

    A hash of a row's topic, or of its instruction if it has none, decides whether it is held out. The tokens
    are counted before rows that are too long are left out.

    Raises:
        InputError: No row can be learned from, or none has a reflection token.
    """
    training, held_out = list[TrainingExample](), list[TrainingExample]()
    left_out, tokens, counts = Counter[tuple[str, str]](), Counter[str](), dict[str, int]()
    for file, rows in rows_by_file.items():
        name = file.replace("/", ":")  # the part of an example's id before "/" is what it is counted by
        counts[name] = len(rows)
        for row in rows:
            parsed = parse_output(row.output, settings.reflection_weight, row.learned)
            if not parsed.spans:
                left_out[name, "a passage without an end" if parsed.is_cut else "no output"] += 1
            elif is_held_out(row, settings.held_out):
                held_out.append(training_example(row, parsed, name))
            else:
                training.append(training_example(row, parsed, name))
                tokens.update(parsed.tokens)
    if not tokens:
        reasons = "; ".join(f"{count:,} of {name}: {why}" for (name, why), count in left_out.items())
        raise InputError(
            f"the rows hold no reflection tokens to learn ({reasons or 'their outputs have none'}). Give "
            'rows whose "output" has tokens such as [Retrieval] and [Relevant], or a lower held_out.'
        )
    random.Random(f"{settings.seed} order").shuffle(training)
    return DataMix(tuple(training), tuple(held_out), counts, left_out), tokens
