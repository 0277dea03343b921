"""The promises of every adapter of the `PairScorer` port, for subclasses with a fixture `scorer`."""

import asyncio
from collections.abc import Sequence
from math import isfinite

from tests.tolerances import assert_near

from askance.core.ports import Model, PairScorer

QUERY = "Which river flows through Bonn?"
PAIRS = [
    (QUERY, "The Rhine flows through Bonn."),
    (QUERY, "Cats sleep all day."),
    ("", "  \n"),
    ("🐟 ﷽", "<|end|> [SEP] " * 20),
    ("half \ud800", "half \udfff"),
    (QUERY, "word " * 2000),
]


class PairScorerContract:
    def test_describes_itself_and_is_no_language_model(self, scorer: PairScorer) -> None:
        assert isinstance(scorer, PairScorer)
        assert not isinstance(scorer, Model)
        assert scorer.name
        assert scorer.fingerprint

    def test_gives_each_pair_a_finite_score_alone_as_together_and_at_once(self, scorer: PairScorer) -> None:
        async def at_once() -> list[float]:
            return [score for (score,) in await asyncio.gather(*(scorer.score_pairs([p]) for p in PAIRS))]

        scores = _scores(scorer, PAIRS)
        assert len(scores) == len(PAIRS)
        assert all(isinstance(score, float) and isfinite(score) for score in scores)
        assert scores[0] != scores[1]
        assert list(_scores(scorer, [])) == []
        assert_near([_scores(scorer, [pair])[0] for pair in PAIRS], scores, "encoder")
        assert_near(asyncio.run(at_once()), scores, "encoder")

    def test_counts_tokens_up_to_its_limit(self, scorer: PairScorer) -> None:
        counts = [scorer.count_tokens(*pair) for pair in PAIRS]
        assert 0 < counts[0] < max(counts) == counts[-1] == scorer.max_tokens


def _scores(scorer: PairScorer, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
    async def score() -> Sequence[float]:
        return await scorer.score_pairs(pairs)

    return asyncio.run(score())
