"""Sweeps: runs with other weights or another threshold, made from recorded runs of Self-RAG without a model.

A swept run is a run folder like any other, so it can be compared, judged and exported. Its traces have the
searches and the choices, but no model calls, because none was made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from askance.core.errors import DatasetError, InputError
from askance.core.parameters import method_spec
from askance.core.spec import call_spec, parse_method
from askance.core.trace import Answered, Asked, Searched, Trace
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.scoring import Scoring
from askance.evaluation.run.record import differences, first_changed_field, make_record
from askance.evaluation.run.recorded_run import RecordedRun, open_run, read_run
from askance.methods.selfrag.method import Selfrag
from askance.text.support import source_of
from askance_lab.reproductions.selfrag_recorded import NotRecorded, choose_again

SWEPT = ("threshold", "w_rel", "w_sup", "w_use")
"""The parameters on which no call of the short form depends."""
_READ = (*SWEPT, "form", "mode", "passages", "use_seqscore", "reject_unsupported", "ask_short_answer")


def recorded_parameters(runs: Sequence[RecordedRun], parameter: str) -> dict[str, str]:
    """Return the parameters of recorded runs that choices depend on, as texts.

    Raises:
        InputError: A run is not of Self-RAG's short form, the runs differ in more than the decision to
            search, or they have not judged what `parameter` weighs.
    """
    first = runs[0].settings
    for run in runs:
        if (
            run.settings.method not in ("selfrag", "selfrag_paper")
            or run.settings.parameters["form"] != "short"
        ):
            raise InputError(
                f"the run {run.folder} is of {run.settings.title}, and only the short form of selfrag and "
                "selfrag_paper can be swept: the calls of others depend on what they choose."
            )
        changes = differences(first, run.settings)
        names = [each for each in changes if each not in ("parameter threshold", "parameter mode")]
        if names:
            listing = "; ".join(f"{name}: {changes[name]}" for name in names)
            raise InputError(f"{runs[0].folder} and {run.folder} differ ({listing}): sweep them apart.")
    values = {name: first.parameters[name].lower() for name in _READ}
    if values["mode"] != "adaptive" if parameter == "threshold" else values[parameter] in ("0", "0.0"):
        recorded = f"mode={values['mode']}, {parameter}={values[parameter]}"
        raise InputError(f"the run {runs[0].folder} ({recorded}) did not judge what {parameter} weighs.")
    return values


async def sweep(
    runs: Sequence[RecordedRun],
    method: Selfrag,
    parameter: str,
    examples: Mapping[str, Example],
    scoring: Scoring,
    folder: Path,
) -> tuple[RecordedRun, dict[str, str]]:
    """Write a run in which `method` chooses among the recorded candidates, and return it.

    Args:
        runs: The recorded runs. The settings are those of the first one.
        parameter: The parameter that `method` has another value of.
        examples: The questions by id.

    Returns:
        The run, and the reason for each question that is left out because a call was not recorded, by id.

    Raises:
        DatasetError: The questions are not those of the run.
        RunFolderError: The folder can't be used.
    """
    first, value, left_out = runs[0], getattr(method, parameter), dict[str, str]()
    for record in first.records:
        if record.id not in examples or first_changed_field(record, examples[record.id]):
            problem = f"the question {record.id!r} of the run {first.folder} is not the dataset's"
            raise DatasetError(f"{problem}: name the file that the run used with --dataset.")
    title, config = parse_method(first.settings.title), dict(first.settings.config)
    settings = replace(
        first.settings,
        title=str(call_spec(title.name, {**title.options, parameter: value})),
        parameters={**first.settings.parameters, parameter: repr(value)},
        config=config and {**config, "parameters": {**config["parameters"], parameter: value}},
    )
    asked = [examples[record.id] for record in first.records]
    by_id = [(run, {record.id: record for record in run.records}) for run in runs]
    with open_run(folder, lambda before: settings, asked, scoring) as (writer, before):
        done = {record.id for record in before.records}
        for record in (each for each in first.records if each.id not in done):
            trace, example = Trace(), examples[record.id]
            traces = [run.trace(of[record.id]) for run, of in by_id if record.id in of]
            asked_as = (each for each in traces[0] if isinstance(each, Asked))
            trace.events += [
                replace(each, method=str(method_spec(method, is_whole=True)), title=settings.title)
                for each in asked_as
            ]
            try:
                answer = await choose_again(method, example.question, [*chain(*traces)], trace)
            except NotRecorded as error:
                left_out[record.id] = str(error)
                continue
            searched = trace.usage().searches > 0
            of_answer = [each for each in traces if searched == any(isinstance(e, Searched) for e in each)]
            answer = replace(answer, source=source_of(answer, [*chain(*of_answer), *trace.events]))
            trace.add(Answered, answer=answer, usage=trace.usage())
            writer.add([(make_record(record.number, example, answer, trace, scoring), trace)])
    return read_run(folder), left_out
