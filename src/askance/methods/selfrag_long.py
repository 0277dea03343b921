"""Self-RAG's long form: a beam of answers that grow segment by segment (Asai et al. 2024, algorithm 1).

The paper gives the score of a segment and "return the best sequence"; the rest is ours:
- the paths of a beam are compared by the sum of their segments' scores over a power of their number
  (`path_power`; 1 is the mean, which favours stopping early, 0 the sum; the authors' code multiplies scores
  that may be negative or above 1);
- utility counts once, at the end, since it is a judgement of whole answers;
- each path searches with what it wrote last, and sees no other's text (in the authors' code passages are the
  same for all segments, and siblings see each other's text).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from askance.core.ports import Run
from askance.core.types import Hit, Key, Question
from askance.methods.reflection_scores import utility_score
from askance.methods.selfrag_deciding import decided, found_for, next_action, rejection, show
from askance.methods.selfrag_segments import Action, Path, Segment, Writer, segment_score
from askance.tree.abreast import abreast
from askance.tree.beam import Rules, beam_search

if TYPE_CHECKING:
    from askance.methods.selfrag import Selfrag


async def long_form(selfrag: "Selfrag", question: Question, run: Run, writer: Writer) -> Path:
    """The best path of the beam, finished or not."""
    start, onward = await writer.begin() if selfrag.mode == "adaptive" else (Path(), {})
    growing = _Growing(selfrag, question, run, writer)
    rules = Rules(
        grow=growing.grow,
        score=lambda path: path_score(selfrag, path),
        is_finished=lambda path: path.is_finished,
        identity=_identity,
    )
    start = replace(start, onward=onward)
    found = await beam_search(start, rules, width=selfrag.beam_width, max_steps=selfrag.max_segments)
    return await _best(selfrag, run, writer, (*found.finished, *found.open))


def path_score(selfrag: "Selfrag", path: Path) -> float:
    """How good the segments are that were written with passages of their own; 0 without any."""
    if not path.scores:
        return 0.0
    return sum(path.scores) / float(len(path.scores) ** selfrag.path_power)


class _Growing:
    """One question's paths while they grow."""

    def __init__(self, selfrag: "Selfrag", question: Question, run: Run, writer: Writer) -> None:
        self._selfrag, self._question, self._run, self._writer = selfrag, question, run, writer
        self._static: tuple[Hit, ...] | None = None

    async def grow(self, path: Path) -> Sequence[Path]:
        """The path with each segment that may follow; itself, finished, where none may."""
        action = next_action(self._selfrag, path.onward, path)
        hits = await self._hits(path, action)
        if action == "retrieve" and hits:
            paths = await self._grown(path, action, hits, 1)
            if paths:
                return paths
        alone: Action = "continue" if action == "continue" else "none"
        paths = await self._grown(path, alone, (None,), len(hits) + 1)
        return paths or [replace(path, is_finished=True)]

    async def _hits(self, path: Path, action: Action) -> tuple[Hit, ...]:
        """The passages for the question, and for the segment written last where each is searched for."""
        is_static = self._selfrag.retrieval == "static"
        last = path.segments[-1].text if path.segments and not is_static else ""
        query = f"{self._question.text} {last}".strip()
        is_known = is_static and self._static is not None
        decision = decided(self._selfrag, self._run, path.onward, action, "" if is_known else query)
        if action != "retrieve":
            return ()
        if self._static is None or not is_static:
            self._static = await found_for(self._run, decision, self._selfrag.passages)
        return self._static

    async def _grown(self, path: Path, action: Action, hits: Sequence[Hit | None], first: int) -> list[Path]:
        """The segments that no hard constraint rejects and that say something, numbered from `first`."""
        segments = await abreast(
            self._writer.write(path, action, hit, key=_key(path, number), whole=False)
            for number, hit in enumerate(hits, start=first)
        )
        numbered = enumerate(segments, start=first)
        grown = [self._next(path, segment, number) for number, segment in numbered]
        return [each for each in grown if each is not None]

    def _next(self, path: Path, segment: Segment, number: int) -> Path | None:
        selfrag = self._selfrag
        is_over = segment.is_last and not segment.text  # nothing more to say than that the answer is complete
        rejected = rejection(selfrag, segment) if segment.text or is_over else "it is empty"
        score = segment_score(selfrag, segment)
        show(self._run, f"{path.name}.{number}", segment, score, rejected)
        if rejected or (is_over and not path.segments):
            return None
        grown = path.then(segment, number) if segment.text else path
        scored = (score,) if segment.action == "retrieve" and segment.text else ()
        return replace(
            grown,
            scores=(*path.scores, *scored),
            utility=segment.utility,
            onward=segment.onward,
            is_finished=segment.is_last,
        )


def _key(path: Path, number: int) -> Key:
    return ("segment", *path.name.split("."), number)


def _identity(path: Path) -> tuple[object, ...]:
    """Paths with equal texts and passages are one."""
    return tuple((each.text, each.hit.passage.id if each.hit else "") for each in path.segments)


async def _best(selfrag: "Selfrag", run: Run, writer: Writer, paths: Sequence[Path]) -> Path:
    """The best with its utility, which is read for answers that were not finished by a utility token.

    Ties: more segments, then the earlier.
    """
    told = [path for path in paths if path.segments] or list(paths)
    open_paths = [path for path in told if not path.utility and path.segments and selfrag.w_use]
    read = dict(zip(map(id, open_paths), await abreast(map(writer.utility, open_paths)), strict=True))
    whole = [replace(path, utility=read.get(id(path), path.utility)) for path in told]
    totals = [path_score(selfrag, path) + selfrag.w_use * utility_score(path.utility) for path in whole]
    best = max(range(len(whole)), key=lambda at: (totals[at], len(whole[at].segments)))
    numbers = {path.name: total for path, total in zip(whole, totals, strict=True)}
    run.trace.decide("choose", whole[best].name, "the best of the answers in the beam", numbers=numbers)
    return whole[best]
