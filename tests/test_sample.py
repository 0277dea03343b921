"""The sample corpus and its questions, which take two or three documents."""

import json
from itertools import pairwise

from askance.sample import CORPUS, QUESTIONS
from askance.text.linguistics import WORD


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def holds(text, answer):
    wanted, words = WORD.findall(answer.lower()), WORD.findall(text.lower())
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words)))


def test_the_corpus_is_short_documents_with_links():
    documents = rows(CORPUS)
    titles = {d["title"].lower() for d in documents}
    assert len(documents) == len({d["id"] for d in documents}) == len(titles) >= 100
    assert all(20 <= len(d["text"].split()) <= 100 for d in documents)
    linked = [d for d in documents if any(t in d["text"].lower() for t in titles - {d["title"].lower()})]
    assert len(linked) >= 0.8 * len(documents)


def test_each_question_needs_all_its_documents():
    documents, questions = {d["id"]: d for d in rows(CORPUS)}, rows(QUESTIONS)
    assert sum(q["hops"] == 2 for q in questions) >= 26
    assert sum(q["hops"] == 3 for q in questions) >= 14
    assert len({q["id"] for q in questions}) == len({q["question"] for q in questions}) == len(questions)
    for question in questions:
        supporting = [documents[id] for id in question["supporting"]]
        assert len(supporting) == question["hops"]
        if question["type"] == "bridge":  # each document names the next, and only the last has the answer
            for document, following in pairwise(supporting):
                assert following["title"].lower() in document["text"].lower()
                assert following["title"] not in question["question"]
            stated = [any(holds(d["text"], answer) for answer in question["answers"]) for d in supporting]
            assert stated == [False] * (len(supporting) - 1) + [True]
        else:
            known = {"yes", "no"} if question["type"] == "yes_no" else {d["title"] for d in supporting}
            assert question["answers"][0] in known
