"""Compare the smaller functions of the Self-RAG authors' code with their counterparts in askance.

Functions without a counterpart are not compared: the script of the baselines (`run_baseline_lm`,
`postprocess_answers_closed`), `find_entity_tags`, `accuracy` (which compares characters of strings), and the
preparation of training data (`postprocess_data`, `convert_score_to_…`, `postprocess_relevance_reward_token`,
`run_reward_vllm`, `chatgpt_…`). The passages of `process_data_evidences` are not compared either, because a
retriever finds them in askance.

The authors' functions fail on some inputs that askance's functions accept. The authors' functions also find
an empty gold answer in every text, whereas askance ignores empty gold answers.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from askance.core.answers import Answer
from askance.core.types import Passage, Question
from askance.evaluation.metrics.answers import exact_match, f1, match
from askance.methods.selfrag.prompts import OWN_INSTRUCTIONS, Task, prompt_head
from askance.methods.selfrag.tokens import CONTINUE
from askance.text.answers import normalise_answer
from askance_lab.reproductions.selfrag_outputs import (
    alce_answer,
    closed_answer,
    question_and_separator,
    segment_text,
    with_sentence_spaces,
)
from benchmarks.selfrag_recorded import TASKS, Case, lettered_options, with_numbers

NAMED = "{{INSTRUCTION}}"


def string_differences(case: Case) -> list[str] | None:
    """Return the differences, or None if the case's function has no counterpart."""
    compared = COUNTERPARTS.get(case["class"])
    if compared is None:
        return None
    args, expected = case["args"], case["expected"]
    ours, theirs = compared(args, expected.get("out"))
    if "raises" in expected or ours is None or _equal(ours, theirs):
        return []
    return [f"ours {ours!r}, theirs {theirs!r}"]


def _equal(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float):
        return math.isclose(ours, theirs, rel_tol=1e-12)
    return bool(ours == theirs)


Compared = Callable[[Sequence[Any], Any], tuple[Any, Any]]
"""A function that takes the recorded arguments and result, and returns askance's result and the recorded one.
Askance's result is None if the two can't be compared."""


def _text(ours: Callable[[str], str]) -> Compared:
    return lambda args, out: (ours(args[0]), out)


def _score(ours: Callable[[str, Sequence[str]], float | None]) -> Compared:
    def compared(args: Sequence[Any], out: Any) -> tuple[Any, Any]:
        golds = [args[1]] if isinstance(args[1], str) else args[1]
        return (ours(args[0], golds) or 0.0 if golds else None), float(out or 0)

    return compared


def _match(args: Sequence[Any], out: Any) -> tuple[Any, Any]:
    text, golds = args
    return (None if "" in golds else match(text, golds) or 0.0), float(out)


def _mean_f1(args: Sequence[Any], out: Any) -> tuple[Any, Any]:
    golds = [[each] if isinstance(each, str) else each for each in args[1]]
    scores = [f1(answer, accepted) or 0.0 for answer, accepted in zip(args[0], golds, strict=True)]
    return 100 * fmean(scores), out


def _prompt(task: str, form: str, out_of: Callable[[Any], Any] = lambda out: out) -> Compared:
    """Return a function that compares the prompt text before a question.

    OpenBookQA has the task "choice" in askance.
    """

    def compared(args: Sequence[Any], out: Any) -> tuple[Any, Any]:
        row = (
            args[0]["data"][0] if "data" in args[0] else args[0][0] if isinstance(args[0], list) else args[0]
        )
        asked = row.get("instruction") or row.get("question") or row["input"]
        known: Task = "choice" if task == "obqa" else TASKS.get(task, "question")
        ours = _instruction(Question("q", asked), known, form)
        return ours, str(out_of(out)).replace(NAMED, getattr(OWN_INSTRUCTIONS, known))

    return compared


def _instruction(question: Question, task: Task, form: str) -> str:
    """Return the prompt for a question, without the lines that begin and end every prompt."""
    text, separator = question_and_separator(question, task, form)
    return "".join(span.text for span in prompt_head(text, getattr(OWN_INSTRUCTIONS, task), separator)[1:-1])


def _arc(stem: str) -> Compared:
    def compared(args: Sequence[Any], out: Any) -> tuple[Any, Any]:
        options = lettered_options(args[0]["choices"])
        question = Question("q", args[0][stem], task="choice", options=options)
        theirs = out["instruction"] if isinstance(out, Mapping) else str(out)
        instruction = args[1] if len(args) > 1 else NAMED
        ours = _instruction(question, "choice", "short")
        return ours, theirs.replace(instruction, OWN_INSTRUCTIONS.choice)

    return compared


def _evidences(args: Sequence[Any], out: Any) -> tuple[Any, Any]:
    spans = prompt_head(args[0]["instruction"], OWN_INSTRUCTIONS.question)
    return "".join(span.text for span in spans), out["prompt"]


def _alce(args: Sequence[Any], out: Any) -> tuple[Any, Any]:
    """Compare with an older version of the authors' script, which repeats texts and keeps spaces."""
    texts = [segment_text(text) for text in args[0] if text]
    if out is None or len(set(texts)) < len(texts) or any(f".{CONTINUE}" in text[:-1] for text in texts):
        return None, None
    path = [(text, Passage(id, "", "")) for text, id in zip(args[0], args[1], strict=True)][1:]
    text, citations = alce_answer(path)
    ours = with_numbers(Answer(text, "", citations)), [each.passage.id for each in citations]
    return ours, (with_sentence_spaces(out["output"]), out["docs"])


COUNTERPARTS: Mapping[str, Compared] = {
    "postprocess_answer_option_conditioned": _text(closed_answer),
    "postprocess": _text(segment_text),
    "postprocess_output:asqa_no_tree": _text(segment_text),
    "fix_spacing": _text(with_sentence_spaces),
    "normalize_answer": _text(normalise_answer),
    "exact_match_score": _score(exact_match),
    "metric_max_over_ground_truths:exact_match_score": _score(exact_match),
    "qa_f1_score": _score(f1),
    "metric_max_over_ground_truths:qa_f1_score": _score(f1),
    "f1": _mean_f1,
    "match": _match,
    "postprocess_output:asqa": _alce,
    "process_arc_instruction": _arc("instruction"),
    "preprocess_input_data:arc_c": _arc("question"),
    "preprocess_input_data:fever": _prompt("fever", "short"),
    "preprocess_input_data:popqa": _prompt("popqa", "short"),
    "preprocess_input_data:triviaqa": _prompt("triviaqa", "short"),
    "preprocess_input_data:asqa": _prompt("asqa", "short"),
    "preprocess_input_data:obqa": _prompt("obqa", "short"),
    "preprocess_input:qa": _prompt("qa", "short", lambda out: out[0]["instruction"]),
    "preprocess_input:asqa": _prompt("asqa", "long", lambda out: out[0]["instruction"]),
    "preprocess_input:eli5": _prompt("eli5", "long", lambda out: out[0]["instruction"]),
    "preprocess_input:factscore": _prompt("factscore", "long", lambda out: out[0]["instruction"]),
    "process_data_evidences": _evidences,
}
