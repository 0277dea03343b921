"""Measure how a model performs the actions of AirRAG on held-out rows."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from askance.core.concurrency import gather_or_cancel
from askance.core.ports import Model
from askance.core.token_ledger import has_room
from askance.core.types import GenerateRequest
from askance.evaluation.metrics.answers import exact_match, f1
from askance.methods.airrag.parameters import AirragParameters
from askance.methods.airrag.prompts import parse_final, parse_queries
from askance.methods.airrag.state import QT, SAY
from askance_lab.training.actions.rows import ACTIONS, ActionRow, is_well_formed


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The replies of one action to rows.

    Attributes:
        none_share: The share of replies without a query, such as None, where a query is needed; None for the
            other actions, and if no query is needed in any row.
        well_formed: The share of replies that AirRAG reads completely (see `is_well_formed`).
        exact_match, f1: The means over all rows, with the queries of SAY and QT joined.
    """

    action: str
    num_rows: int
    none_share: float | None
    well_formed: float
    exact_match: float
    f1: float

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the result as the cells of a table with the columns of `COLUMNS`."""
        none = "" if self.none_share is None else f"{self.none_share:.1%}"
        numbers = (f"{self.exact_match:.3f}", f"{self.f1:.3f}")
        return (self.action, f"{self.num_rows:,}", none, f"{self.well_formed:.1%}", *numbers)


COLUMNS = ("action", "held out", "None where a query is needed", "well-formed", "exact match", "F1")


async def measure(
    model: Model, rows: Iterable[ActionRow], limit: int | None = None, seed: int = 0
) -> tuple[ActionResult, ...]:
    """Return the results of each action on the rows, of which at most `limit` are drawn.

    The replies are those with the greatest probabilities, with the length and the stop strings of the search.
    Rows that do not fit the window of the model are left out.
    """
    results, given, is_chat = list[ActionResult](), list(rows), "chat" in model.capabilities
    parameters = AirragParameters(temperature=0.0)
    samplings = {action: parameters.sampling(action, is_chat=is_chat) for action in ACTIONS}

    async def fits(row: ActionRow) -> bool:
        return await has_room(model, row.prompt(model), samplings[row.action].max_tokens)

    async def reply(row: ActionRow) -> str:
        key = ("measure", row.action, row.id)
        request = GenerateRequest(row.prompt(model), samplings[row.action], key=key)
        (written,) = await model.generate(request)
        return written.text

    for action in ACTIONS:
        own = [row for row in given if row.action == action and await fits(row)]
        rng = random.Random(f"{seed} measured {action}")
        drawn = own if limit is None or len(own) <= limit else rng.sample(own, limit)
        if drawn:
            results.append(_result(action, drawn, await gather_or_cancel(map(reply, drawn))))
    return tuple(results)


def _result(action: str, rows: Sequence[ActionRow], replies: Sequence[str]) -> ActionResult:
    def read(text: str) -> str:
        return "\n".join(parse_queries(text)) or "None" if action in (SAY, QT) else parse_final(text)

    written = [read(text) for text in replies]
    pairs = list(zip(rows, written, strict=True))
    needed = [text == "None" for row, text in pairs if action in (SAY, QT) and not row.is_none]
    return ActionResult(
        action,
        len(rows),
        fmean(needed) if needed else None,
        fmean(is_well_formed(action, text) for text in replies),
        # A reply of which normalisation leaves nothing equals no text, and its F1 is 0.
        fmean(min(exact_match(text, [row.reply]), f1(text, [row.reply])) for row, text in pairs),
        fmean(f1(text, [row.reply]) for row, text in pairs),
    )
