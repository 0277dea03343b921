import json
from itertools import pairwise

from askance.sample import CORPUS, QUESTIONS
from askance.text.linguistics import WORD


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_corpus_is_short_documents_with_links():
    documents = rows(CORPUS)
    assert len(documents) >= 100
    assert len({d["id"] for d in documents}) == len({d["title"] for d in documents}) == len(documents)
    assert all(20 <= len(d["text"].split()) <= 100 for d in documents)
    titles = [d["title"].lower() for d in documents]
    linked = sum(any(t in d["text"].lower() for t in titles if t != d["title"].lower()) for d in documents)
    assert linked >= 0.8 * len(documents)


def test_the_questions_take_two_or_three_documents():
    documents = {d["id"]: d for d in rows(CORPUS)}
    questions = rows(QUESTIONS)
    assert sum(q["hops"] == 2 for q in questions) >= 26
    assert sum(q["hops"] == 3 for q in questions) >= 14
    assert len({q["id"] for q in questions}) == len({q["question"] for q in questions}) == len(questions)
    for question in questions:
        supporting = [documents[id] for id in question["supporting"]]
        assert len(supporting) == question["hops"]
        if question["type"] == "bridge":
            assert_chain(question, supporting)
        elif question["type"] == "yes_no":
            assert question["answers"][0] in ("yes", "no")
        else:
            assert question["answers"][0] in {d["title"] for d in supporting}


def assert_chain(question, supporting):
    """Each document names the next; only the last holds the answer."""
    for document, following in pairwise(supporting):
        assert following["title"].lower() in document["text"].lower()
        assert following["title"] not in question["question"]
    stated = [
        any(holds(document["text"], answer) for answer in question["answers"]) for document in supporting
    ]
    assert stated == [False] * (len(supporting) - 1) + [True]


def holds(text, answer):
    wanted, found = WORD.findall(answer.lower()), WORD.findall(text.lower())
    return any(found[at : at + len(wanted)] == wanted for at in range(len(found)))
