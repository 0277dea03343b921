"""A recorded case of the Self-RAG authors' functions: the question, and a model that plays the case back.

For each prompt, a case has the generated pieces, their log-probabilities, and the log-probabilities of the
control tokens. A prompt is identified by its text after the question's base prompt, and by a passage.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from askance.core.answers import Answer
from askance.core.types import (
    Attention,
    Capability,
    Chat,
    GenerateRequest,
    Generation,
    Part,
    Passage,
    Prompt,
    Question,
    Scored,
    Signal,
    Span,
    Token,
    TokenIds,
)
from askance.methods.selfrag.prompts import OWN_INSTRUCTIONS, Task
from askance.methods.selfrag.tokens import ALL_TOKENS
from askance_lab.reproductions.selfrag import SelfragAuthors

Case = Mapping[str, Any]

END = "</s>"
TASKS: Mapping[str | None, Task] = {
    "fever": "claim",
    "arc_c": "choice",
    "asqa": "ambiguous",
    "eli5": "explain",
    "factscore": "biography",
}
_LETTERS = dict(zip("12345", "ABCDE", strict=True))
_CONTROL = re.compile("|".join(map(re.escape, ALL_TOKENS)))
_FIRST_ORDINARY_ID = 1 << 17
_EMPTY: Case = {"pieces": [END], "logprobs": [0.0], "top": {}, "finish": "stop"}


class RecordedEngine:
    """A `Model` that plays back the generations of a case.

    For a prompt that is not in the case, the model generates an empty string. Generated text shows control
    tokens and the end token only if the recorded engine showed them (`text_mode`).

    Attributes:
        calls: The prompt and `max_tokens` of each call, in order. A prompt is given by its number in the
            script, or by its text if it is not in the script.
    """

    name, fingerprint, context_tokens = "recorded", "", 1 << 24
    precision, counts_exactly = "", True
    signals: frozenset[Signal] = frozenset({"logprob", "token_probs"})
    capabilities: frozenset[Capability] = frozenset({"raw"})

    def __init__(self, case: Case, token_ids: Mapping[str, int]) -> None:
        self.calls: list[tuple[int | str, int]] = []
        self._ids = dict(token_ids)
        self._pieces = {id: name for name, id in self._ids.items()}
        self._mode = case["text_mode"]
        base, passages = base_prompt(case), passages_of(case)
        self._script = case["script"]
        self._places = {
            base + each["behind"] + _shown(passages, each["passage"]): place
            for place, each in enumerate(self._script)
        }

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        text, want = self._text(request.prompt), request.want
        place = self._places.get(text)
        self.calls.append((text if place is None else place, request.sampling.max_tokens))
        entry = _EMPTY if place is None else self._script[place]
        tokens, written = list[Token](), ""
        for step, (piece, logprob) in enumerate(zip(entry["pieces"], entry["logprobs"], strict=True)):
            shown = "" if piece == END or self._hides(piece) else piece
            beside = {piece: logprob, **entry["top"].get(str(step), {})}
            probs = tuple(math.exp(beside[name]) if name in beside else 0.0 for name in want.token_probs)
            end = len(written) + len(shown)
            tokens.append(Token(self._id(piece), shown, len(written), end, logprob, probs=probs))
            written += shown
        ends = entry["finish"] == "stop"
        kept, dropped = (tokens[:-1], tokens[-1:]) if ends else (tokens, [])
        finish = "end" if ends else "length"
        return (Generation(written, tuple(kept), tuple(dropped), finish),)

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        raise NotImplementedError

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        raise NotImplementedError

    def tokenize(self, text: str | Sequence[Span], *, at_start: bool = False) -> TokenIds:
        whole = text if isinstance(text, str) else "".join(span.text for span in text)
        is_control = not isinstance(text, str) and _CONTROL.fullmatch(whole)
        return (self._id(whole),) if is_control else tuple(map(self._id, whole))

    def decode(self, ids: TokenIds, *, at_start: bool = False) -> str:
        return "".join(self.pieces(ids))

    def pieces(self, ids: TokenIds) -> tuple[str, ...]:
        return tuple("" if id == self._ids[END] and self._hides(END) else self._pieces[id] for id in ids)

    async def count(self, prompt: Prompt) -> int:
        return len(self._text(prompt))

    def _text(self, prompt: Prompt) -> str:
        assert not isinstance(prompt, Chat)
        parts: tuple[Part, ...] = (*prompt.parts, *prompt.continuation)
        return "".join(part.text if isinstance(part, Span) else self.decode(part) for part in parts)

    def _hides(self, piece: str) -> bool:
        if piece == END:
            return bool(self._mode != "kept_eos")
        return bool(self._mode == "stripped") and piece in ALL_TOKENS

    def _id(self, piece: str) -> int:
        if piece not in self._ids:
            id = _FIRST_ORDINARY_ID + len(self._ids)
            self._ids[piece], self._pieces[id] = id, piece
        return self._ids[piece]


def base_prompt(case: Case) -> str:
    """Return the base prompt of a case with askance's instruction, or an empty string without one."""
    instruction = getattr(OWN_INSTRUCTIONS, TASKS.get(case.get("task"), "question"))
    return str(case.get("base_prompt", "")).replace("{{INSTRUCTION}}", instruction)


def passages_of(case: Case) -> list[Passage]:
    """Return the passages that a case uses, best first, or an empty list if the case has no passages."""
    row = case["row"]
    found = row.get("ctxs") or row.get("top_contexts") or row.get("docs") or []
    limit = case["args"]["ndocs"] if case.get("driver", "main") == "main" else len(found)
    return [Passage(each["id"], each["title"], each["text"]) for each in found[:limit]]


def question_of(case: Case) -> Question:
    """Return the question in the form that askance's datasets give it."""
    row, task = case["row"], case.get("task")
    if task == "arc_c":
        return Question("q", row["question"], task="choice", options=lettered_options(row["choices"]))
    if task == "fever":
        return Question("q", row["question"], task="choice", options=("true", "false"))
    return Question("q", row.get("question") or row.get("input") or "Where is it?")


def lettered_options(choices: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the choices of ARC in the form that `evaluation.datasets.choices.arc` gives them: "A: iron"."""
    options = zip(choices["label"], choices["text"], strict=True)
    return tuple(f"{_LETTERS.get(label, label)}: {text}" for label, text in options)


def with_numbers(answer: Answer) -> str:
    """Return an answer's text, with each citation's number before the last character of the cited span."""
    text = answer.text
    for each in reversed(answer.citations):
        text = f"{text[: each.end - 1]} [{each.number}]{text[each.end - 1 :]}"
    return text


def method_of(case: Case) -> SelfragAuthors:
    """Return the authors' variant of the method, with the settings of the case."""
    args, driver = case["args"], case.get("driver")
    modes = {"always_retrieve": "always", "no_retrieval": "never"}
    is_grounded = args.get("use_groundness", args.get("use_grounding"))
    parameters = {
        "form": "short" if driver is None else "long",
        "task": TASKS.get(case.get("task"), "question"),
        "mode": modes.get(args.get("mode"), "adaptive"),
        "threshold": args["threshold"],
        "passages": max(args.get("ndocs", 1), len(passages_of(case)), 1),
        "max_tokens": args["max_new_tokens"],
        "use_seqscore": args["use_seqscore"],
        "fixed_weights": driver == "main" and is_grounded,
        "reject_unsupported": args.get("ignore_cont", False),
        "beam_width": args.get("beam_width", 1),
        "max_segments": args.get("max_depth", 2) - 1,
    }
    if driver != "main":
        parameters |= {name: args[name] for name in ("w_rel", "w_sup", "w_use") if name in args}
    parameters |= {} if is_grounded else {"w_sup": 0.0}
    parameters |= {} if args["use_utility"] else {"w_use": 0.0}
    if driver in ("main", "call_model_beam_batch"):
        parameters["use_seqscore"] = False  # These drivers do not pass the options on.
    return SelfragAuthors(**parameters)


def _shown(passages: Sequence[Passage], place: int | None) -> str:
    if place is None:
        return ""
    passage = passages[place]
    return f"[Retrieval]<paragraph>{passage.title}\n{passage.text}</paragraph>"
