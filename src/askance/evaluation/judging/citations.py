"""Citation recall and precision of ALCE: do the cited passages entail the sentences that cite them?

Gao et al. 2023, "Enabling Large Language Models to Generate Text with Citations" (arXiv 2305.14627), section
4; the judge is a natural language inference model (Honovich et al. 2022, TRUE, arXiv 2204.04991).

- A sentence is supported if its cited passages together entail it. A sentence without citations is
  unsupported.
- A citation is relevant if its sentence is supported and needs the passage: the passage alone entails the
  sentence, or the other passages together do not.

Recall is the fraction of an answer's sentences that are supported. Precision is the fraction of the answer's
citations that are relevant. An answer without citations has precision 0, and an answer without sentences has
recall 0.

Deviations from ALCE's code: all citations of a sentence count, not only the first three; sentences are split
by askance's rules instead of NLTK's; answers without sentences are not skipped.
"""

from collections.abc import Sequence

from askance.core.answers import Answer
from askance.core.ports import Entailment
from askance.core.types import Passage
from askance.evaluation.judging.judge_run import AnswerJudge, JudgeFinding
from askance.text.support import cited_sentences


def citation_judge(entailment: Entailment, spec: str) -> AnswerJudge:
    """Return a judge of citations.

    Args:
        spec: The specification of the judge model, as the user gave it.
    """

    async def find(id: str, topic: str, answer: Answer) -> tuple[JudgeFinding, ...]:
        return await judge_citations(answer, entailment)

    return AnswerJudge("citations", {"judge": spec, "model": entailment.name}, find, citation_scores)


async def judge_citations(answer: Answer, entailment: Entailment) -> tuple[JudgeFinding, ...]:
    """Return a finding for each sentence of an answer."""
    return tuple([await _judge(each.text, each.passages, entailment) for each in cited_sentences(answer)])


def citation_scores(findings: Sequence[JudgeFinding]) -> dict[str, float]:
    """Return citation recall and precision of one answer, from 0 to 1.

    In this example, the first sentence cites two passages but needs only one of them, and the second sentence
    cites none:

    >>> citation_scores([JudgeFinding("Bonn is old.", True, 2, 1), JudgeFinding("It rains.", False)])
    {'nli_citation_recall': 0.5, 'nli_citation_precision': 0.5}
    """
    num_supported = sum(each.is_supported for each in findings)
    num_cited = sum(each.cited for each in findings)
    num_relevant = sum(each.relevant for each in findings)
    return {
        "nli_citation_recall": num_supported / len(findings) if findings else 0.0,
        "nli_citation_precision": num_relevant / num_cited if num_cited else 0.0,
    }


async def _judge(sentence: str, passages: Sequence[Passage], entailment: Entailment) -> JudgeFinding:
    is_supported = bool(passages) and await entailment.entails(_premise(passages), sentence)
    if not is_supported or len(passages) == 1:
        return JudgeFinding(sentence, is_supported, len(passages), int(is_supported))
    num_relevant = 0
    for passage in passages:
        others = [each for each in passages if each is not passage]
        num_relevant += await entailment.entails(_premise([passage]), sentence) or not (
            await entailment.entails(_premise(others), sentence)
        )
    return JudgeFinding(sentence, is_supported, len(passages), num_relevant)


def _premise(passages: Sequence[Passage]) -> str:
    """Return the passages as one string, in the format that ALCE's judge expects."""
    return "\n".join(f"Title: {passage.title}\n{passage.text}" for passage in passages)
