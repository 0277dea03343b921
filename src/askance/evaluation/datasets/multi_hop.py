"""Multi-hop datasets: HotpotQA, 2WikiMultihopQA, MuSiQue, IIRC and StrategyQA.

Each function converts a record of the authors' file into examples. The catalogue has files and licences.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from askance.core.records import Field, read_records, unique
from askance.core.types import Question
from askance.evaluation.datasets.example import (
    Example,
    Paragraph,
    SupportingFacts,
    complete_triples,
    paragraphs_from_facts,
    places,
    reasoning_steps,
    whole,
)
from askance.evaluation.datasets.flashrag import question_and_answer, read_either

_ALIASES_NAME = "id_aliases.json"
_ALIASES_SHAPE = 'A line of the aliases is {"Q_id": "Q42", "aliases": ["…"], "demonyms": ["…"]}.'


def hotpotqa(record: Field, number: int) -> Iterator[Example]:
    """Yield the question in a record of HotpotQA (distractor or full wiki), about two Wikipedia articles.

    Yang et al. 2018, "HotpotQA: A Dataset for Diverse, Explainable Multi-hop Question Answering" (arXiv
    1809.09600). The file is a JSON array, for example ``hotpot_dev_distractor_v1.json``.

        {"_id": "5a", "question": "Which river surrounds the birthplace of the author of Buddenbrooks?",
         "answer": "Trave", "type": "bridge", "supporting_facts": [["Thomas Mann", 0], ["Lübeck", 2]], …}

    becomes an open question of the kind "bridge" with two hops (one per supporting article), one gold answer,
    and the supporting titles "Thomas Mann" and "Lübeck". The task is "open" even if the answer is yes or no.
    The paragraphs come from `context`, [["Thomas Mann", ["He was born in Lübeck.", …]], …]. Their evidence
    consists of the supporting sentences.
    """
    facts = [(fact[0].text(), fact[1].integer()) for fact in record["supporting_facts"].filled()]
    texts = [(text[0].maybe_blank(), text[1].maybe_blanks()) for text in record.get("context", []).each()]
    titles = unique(title for title, _ in facts)
    yield Example(
        Question(record["_id"].id(), record["question"].text()),
        (record["answer"].text(),),
        titles,
        record.get("type", "").maybe_blank(),
        len(titles),
        SupportingFacts(paragraphs_from_facts(texts, facts)),
    )


def read_two_wiki(path: Path, shape: str, aliases: str | None = None) -> Iterator[Example]:
    """Yield the examples of 2WikiMultihopQA, whose questions need two to four Wikipedia articles.

    Ho et al. 2020, "Constructing A Multi-hop QA Dataset for Comprehensive Evaluation of Reasoning Steps"
    (arXiv 2011.01060). The questions were generated from Wikidata. The file is a JSON array, for example
    ``dev.json``. A second file, in JSON Lines, gives the aliases of each Wikidata entity. This is the file
    that ``?aliases=`` names or, by default, ``id_aliases.json`` in the same folder, if it exists.

        {"_id": "9b", "question": "Which river surrounds the birthplace of the author of Buddenbrooks?",
         "answer": "Trave", "answer_id": "Q4", "type": "compositional",
         "supporting_facts": [["Thomas Mann", 0], ["Lübeck", 2]], …}

    and the alias line ``{"Q_id": "Q4", "aliases": ["River Trave"], …}`` become an open question with two hops
    and the gold answers "Trave" and "River Trave". Demonyms are ignored, as in DRAGIN. Paragraphs have the
    same form as in HotpotQA. The triples come from `evidences`, [["Thomas Mann", "place of birth", "Lübeck"],
    …].

    Files in FlashRAG's layout have no Wikidata ids, so aliases can't be used with them.
    """
    beside = path.with_name(_ALIASES_NAME)
    file = Path(aliases) if aliases else beside if beside.exists() else None
    names: dict[str, list[str]] = {}
    for id, others in read_records(file, _ALIASES_SHAPE, convert=_aliases) if file else ():
        names.setdefault(id, []).extend(others)
    option = "aliases" if aliases else ""
    return read_either(path, shape, convert=partial(_two_wiki, names=names), official_option=option)


def _two_wiki(record: Field, number: int, names: Mapping[str, list[str]]) -> Iterator[Example]:
    id = record.get("answer_id", "").maybe_blank()
    evidences = record.get("evidences", []).each()
    triples = complete_triples([row[part].maybe_blank() for part in range(3)] for row in evidences)
    for example in hotpotqa(record, number):
        yield dataclasses.replace(
            example,
            golds=unique((*example.golds, *names.get(id, ()))),
            supporting_facts=dataclasses.replace(example.supporting_facts, triples=triples),
        )


def _aliases(record: Field, number: int) -> Iterator[tuple[str, list[str]]]:
    """Yield a Wikidata id with its aliases, leaving out blank aliases."""
    names = record["aliases"].maybe_blanks()
    yield record["Q_id"].id(), [name for name in names if name.strip()]


def musique(record: Field, number: int) -> Iterator[Example]:
    """Yield the question in a record of MuSiQue-Ans, composed of two to four single-hop questions.

    Trivedi et al. 2022, "MuSiQue: Multihop Questions via Single-hop Question Composition" (arXiv 2108.00573).
    The file is JSON Lines, for example ``musique_ans_v1.0_dev.jsonl``.

        {"id": "2hop__12_34", "question": "Which river flows through Galileo's birthplace?", "answer": "Arno",
         "answer_aliases": ["River Arno"], "question_decomposition": [{…}, {…}],
         "paragraphs": [{"title": "Pisa", "is_supporting": true, …},
                        {"title": "Padua", "is_supporting": false, …}, …]}

    becomes an open question of the kind "2hop" with two hops, two gold answers and the supporting title
    "Pisa". The kind, such as "3hop1", says how the hops are connected. It is a part of the id, which
    FlashRAG's ids lack. The whole `paragraph_text` of a supporting paragraph is evidence. The single-hop
    questions become the reasoning steps.
    """
    if record.get("answerable", True).truth() is not True:
        raise record["answerable"].flaw("not true", found=True)
    id = record["id"].id()
    paragraphs, titles = [], []
    for each in record["paragraphs"].each():
        title, is_supporting = each["title"].text(), each["is_supporting"].truth()
        text = each.get("paragraph_text", "").maybe_blank()
        if is_supporting:
            titles.append(title)
        if text.strip():
            paragraphs.append(Paragraph(title, text, whole(text) if is_supporting else ()))
    hops = [question_and_answer(hop) for hop in record["question_decomposition"].each()]
    yield Example(
        Question(id, record["question"].text()),
        unique((record["answer"].text(), *record.get("answer_aliases", []).texts())),
        unique(titles),
        id.partition("__")[0] if "__" in id else "",
        len(hops) or None,
        SupportingFacts(tuple(paragraphs), steps=reasoning_steps(hops)),
    )


def iirc(record: Field, number: int) -> Iterator[Example]:
    """Yield the questions in a record of IIRC, about a Wikipedia paragraph and the articles it links to.

    Ferguson et al. 2020, "IIRC: A Dataset of Incomplete Information Reading Comprehension Questions" (arXiv
    2011.07127). The file is a JSON array of paragraphs, for example ``dev.json``, of which DRAGIN uses the
    954 questions that have an answer.

        [{"title": "Thomas Mann", "text": "He was born in Lübeck …", "links": […], "questions": [
            {"qid": "q_7", "question": "Which river surrounds his birthplace?",
             "context": [{"passage": "main", "text": "…"}, {"passage": "Lübeck", "text": "…"}],
             "answer": {"type": "span", "answer_spans": [{"text": "the Trave", "passage": "Lübeck"}]}}]}]

    becomes an open question of the kind "span" with two hops, the gold answer "the Trave" and the supporting
    titles "Thomas Mann" (which "main" stands for) and "Lübeck". Titles of linked articles are written as in
    the links, often in lower case. A question without an id gets an id such as "3-1", made of the numbers of
    the paragraph and of the question. The first paragraph is the record's text. Its evidence consists of the
    pieces of `context` from this text, or of the whole text if the pieces do not occur in it literally. The
    other paragraphs are the pieces from linked articles; the whole articles are in another file.

    The rules for answers are those of DRAGIN (Su et al. 2024, arXiv 2403.10081, and its code): a question of
    the type "none" is dropped; "value" and "binary" give one gold answer, without the unit of a value; each
    span is a gold answer, although the answer consists of all spans. Malformed questions (type "bad") are
    also dropped, as in the authors' baseline.
    """
    title, text = record["title"].text(), record.get("text", "").maybe_blank()
    for index, asked in enumerate(record["questions"].each(), start=1):
        golds = _iirc_golds(asked["answer"])
        pieces = [
            (each["passage"].text(), each.get("text", "").maybe_blank())
            for each in asked.get("context", []).each()
        ]
        question = Question(asked.get("qid", f"{number}-{index}").id(), asked["question"].text())
        own = [piece for passage, piece in pieces if passage == "main"]
        evidence = places(text, own) or (whole(text) if own else ())
        linked = dict.fromkeys((passage, piece.strip()) for passage, piece in pieces if passage != "main")
        texts = (Paragraph(title, text, evidence), *(Paragraph(*each, whole(each[1])) for each in linked))
        titles = unique(title if passage == "main" else passage for passage, _ in pieces)
        supporting_facts = SupportingFacts(tuple(each for each in texts if each.text.strip()))
        if golds:
            kind = asked["answer"]["type"].text()
            yield Example(question, golds, titles, kind, len(titles) or None, supporting_facts)


def _iirc_golds(answer: Field) -> tuple[str, ...]:
    """Return the gold answers.

    The result is empty if the articles do not answer the question or the question is malformed.
    """
    kind = answer["type"].one_of("none", "bad", "value", "binary", "span")
    if kind in ("none", "bad"):
        return ()
    if kind != "span":
        return (answer["answer_value"].id().strip(),)
    spans = [span["text"].maybe_blank().strip() for span in answer["answer_spans"].each()]
    if not any(spans):
        raise answer.flaw("no span has a text")
    return unique(filter(None, spans))


def strategyqa(record: Field, number: int) -> Iterator[Example]:
    """Yield the question in a record of StrategyQA: a yes-or-no question with implicit reasoning steps.

    Geva et al. 2021, "Did Aristotle Use a Laptop? A Question Answering Benchmark with Implicit Reasoning
    Strategies" (arXiv 2101.02235). The file is a JSON array, for example ``strategyqa_train.json``.

        {"qid": "s1", "question": "Can the Moon be seen from Bonn?", "answer": true, …}

    becomes a yes-or-no question with the gold answer "yes". The supporting facts come from `facts`, and the
    reasoning steps from `decomposition`, which holds questions without answers. There are no supporting
    titles, because each annotator chose different evidence from the authors' own Wikipedia dump.
    """
    facts = record.get("facts", []).maybe_blanks()
    questions = record.get("decomposition", []).maybe_blanks()
    yield Example(
        Question(record["qid"].id(), record["question"].text(), task="yes_no"),
        ("yes" if record["answer"].truth() else "no",),
        supporting_facts=SupportingFacts(
            facts=tuple(" ".join(fact.split()) for fact in facts if fact.strip()),
            steps=reasoning_steps((question, "") for question in questions),
        ),
    )


read_hotpotqa = partial(read_either, convert=hotpotqa)
read_musique = partial(read_either, convert=musique)
read_iirc = partial(read_either, convert=iirc)
read_strategyqa = partial(read_either, convert=strategyqa, task="yes_no")
