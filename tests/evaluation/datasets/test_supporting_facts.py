"""The supporting facts of each dataset, in the layout of its authors and in FlashRAG's."""

import pytest

from askance.configuration.evaluation import read_dataset
from askance.evaluation.datasets.example import Paragraph, ReasoningStep, SupportingFacts, Triple
from tests.evaluation.datasets.test_files import read
from tests.evaluation.datasets.test_formats import HOTPOT, MUSIQUE, TWO_WIKI, lines, write

MANN = Paragraph("Thomas Mann", "He was born in Lübeck. He wrote Buddenbrooks.", ((0, 22),))
LUBECK = Paragraph("Lübeck", "A city. It is old. It lies on the Trave.", ((19, 40),))


def supporting_facts_of(spec, content, tmp_path):
    path = write(tmp_path / "a.json", content)
    return [example.supporting_facts for example in read_dataset(spec.format(path))]


def flashrag(**metadata):
    return lines({"id": "a", "question": "Who?", "golden_answers": ["Ada"], "metadata": metadata})


def test_hotpotqa():
    first, second, _ = read("hotpotqa:hotpotqa.json")
    both = Paragraph("Thomas Mann", MANN.text, ((0, 22), (23, 45)))
    assert first.supporting_facts == SupportingFacts((both, LUBECK))
    rivers = (Paragraph("Trave", "A river.", ((0, 8),)), Paragraph("Wakenitz", "A river.", ((0, 8),)))
    assert second.supporting_facts == SupportingFacts(rivers)


def test_sentences_of_hotpotqa_bring_their_blanks(tmp_path):
    context = [
        ["Elbe", ["A river.", " Long."]],
        ["Lübeck", ["A city.", " It is old.", " It lies on the Trave."]],
    ]
    supporting_facts = SupportingFacts((Paragraph("Elbe", "A river. Long."), LUBECK))
    assert supporting_facts_of("hotpotqa:{}", [HOTPOT | {"context": context}], tmp_path) == [supporting_facts]


def test_a_supporting_fact_that_is_not_in_the_context_is_passed_over(tmp_path):
    record = HOTPOT | {
        "supporting_facts": [["Nobody", 0], ["Bonn", 9], ["Bonn", -1], ["Bonn", 1]],
        "context": [["Bonn", ["A city."]], ["", ["No title."]], ["Trave", [""]], ["Elbe", []]],
    }
    paragraphs = (
        Paragraph("Bonn", "A city."),
        Paragraph("", "No title."),
        Paragraph("Trave", ""),
        Paragraph("Elbe", ""),
    )
    assert supporting_facts_of("hotpotqa:{}", [record], tmp_path) == [SupportingFacts(paragraphs)]


def test_a_title_that_is_there_twice_supports_twice(tmp_path):
    record = HOTPOT | {
        "supporting_facts": [["Bonn", 0]],
        "context": [["Bonn", ["A."]], ["Bonn", ["B.", "C."]]],
    }
    paragraphs = (Paragraph("Bonn", "A.", ((0, 2),)), Paragraph("Bonn", "B. C.", ((0, 2),)))
    assert supporting_facts_of("hotpotqa:{}", [record], tmp_path) == [SupportingFacts(paragraphs)]


@pytest.mark.parametrize(
    ("spec", "record", "fields"),
    [
        ("hotpotqa:{}", HOTPOT, ["context"]),
        ("2wikimultihopqa:{}", TWO_WIKI, ["context", "evidences"]),
        ("strategyqa:{}", {"qid": "a", "question": "Is it?", "answer": True}, []),
    ],
)
def test_a_record_without_supporting_facts_is_read_as_before(tmp_path, spec, record, fields):
    bare = {name: value for name, value in record.items() if name not in fields}
    assert supporting_facts_of(spec, [bare], tmp_path) == [SupportingFacts()]


def test_two_wiki():
    first, second, _ = read("2wikimultihopqa:2wikimultihopqa.json")
    assert first.supporting_facts == SupportingFacts(
        (MANN, LUBECK), (Triple("Thomas Mann", "place of birth", "Lübeck"),)
    )
    assert second.supporting_facts == SupportingFacts()


def test_musique():
    first, *_ = read("musique:musique.jsonl")
    assert first.supporting_facts == SupportingFacts(
        (
            Paragraph("Padua", "It has a chapel."),
            Paragraph("Galileo", "He was born in Pisa.", ((0, 20),)),
            Paragraph("Pisa", "It lies on the Arno.", ((0, 20),)),
        ),
        steps=(
            ReasoningStep("Where was Galileo born?", "Pisa"),
            ReasoningStep("Which river flows through #1?", "Arno"),
        ),
    )


def test_musique_without_the_texts(tmp_path):
    record = MUSIQUE | {
        "paragraphs": [{"title": "Pisa", "is_supporting": True}],
        "question_decomposition": [{"id": 12}, {"id": 34}],
    }
    assert supporting_facts_of("musique:{}", lines(record), tmp_path) == [SupportingFacts()]


def test_strategyqa():
    first, *_ = read("strategyqa:strategyqa.json")
    assert first.supporting_facts == SupportingFacts(
        facts=("One.", "Two."), steps=(ReasoningStep("When?"), ReasoningStep("Is #1 first?"))
    )


def test_facts_of_strategyqa_are_put_in_order(tmp_path):
    record = {"qid": "a", "question": "Is it?", "answer": True, "facts": [" The  Moon\nshines. ", " "]}
    assert supporting_facts_of("strategyqa:{}", [record], tmp_path) == [
        SupportingFacts(facts=("The Moon shines.",))
    ]


def squad(context, *answers):
    asked = {"id": "a", "question": "Who?", "answers": list(answers), "is_impossible": not answers}
    return {"data": [{"title": "Old_Bonn", "paragraphs": [{"context": context, "qas": [asked]}]}]}


@pytest.mark.parametrize(
    ("text", "start", "evidence"),
    [
        ("Rhine", 17, ((0, 23),)),
        ("Rhine", 49, ((35, 62),)),
        ("Rhine", 20, ((0, 23),)),  # does not stand there
        ("Rhine", -13, ((0, 23),)),
        ("Rhine", 900, ((0, 23),)),
        ("Rhine", None, ((0, 23),)),
        ("old. A ship", 30, ((24, 34), (35, 62))),
        ("Danube", 17, ((0, 62),)),  # stands nowhere
    ],
)
def test_sentences_of_squad_that_the_answer_lies_in(tmp_path, text, start, evidence):
    context = "Bonn lies at the Rhine. It is old. A ship on the Rhine is old."
    answer = {"text": text} if start is None else {"text": text, "answer_start": start}
    other = {"text": "ship", "answer_start": 37}
    paragraph = Paragraph("Old Bonn", context, evidence)
    assert supporting_facts_of("squad2:{}", squad(context, answer, other), tmp_path) == [
        SupportingFacts((paragraph,))
    ]


@pytest.mark.parametrize("context", ["", " "])
def test_squad_without_the_text(tmp_path, context):
    assert supporting_facts_of(
        "squad2:{}", squad(context, {"text": "Rhine", "answer_start": 0}), tmp_path
    ) == [SupportingFacts()]


def test_what_squad_does_not_answer_has_no_evidence(tmp_path):
    paragraph = Paragraph("Old Bonn", "A city.")
    assert supporting_facts_of("squad2:{}?unanswerable=keep", squad("A city."), tmp_path) == [
        SupportingFacts((paragraph,))
    ]


def test_iirc():
    first, second, last = read("iirc:iirc.json")
    paragraph = Paragraph("Thomas Mann", "He was born in Lübeck and wrote Buddenbrooks.", ((7, 21),))
    assert first.supporting_facts == SupportingFacts(
        (paragraph, Paragraph("lübeck", "between Trave and Wakenitz", ((0, 26),)))
    )
    assert second.supporting_facts == SupportingFacts(
        (paragraph, Paragraph("lübeck", "seven towers", ((0, 12),)))
    )
    opera = Paragraph("Fidelio", "An opera by Beethoven.")
    assert last.supporting_facts == SupportingFacts(
        (opera, Paragraph("beethoven", "born in Bonn", ((0, 12),)))
    )


@pytest.mark.parametrize(
    ("context", "paragraphs"),
    [
        ([{"passage": "main", "text": "It is new."}], (Paragraph("Bonn", "A city.", ((0, 7),)),)),
        ([{"passage": "main"}, {"passage": "rhine"}], (Paragraph("Bonn", "A city.", ((0, 7),)),)),
        ([], (Paragraph("Bonn", "A city."),)),
        (
            [{"passage": "rhine", "text": "Long."}, {"passage": "rhine", "text": " Long."}],
            (Paragraph("Bonn", "A city."), Paragraph("rhine", "Long.", ((0, 5),))),
        ),
    ],
)
def test_pieces_of_iirc_that_are_not_there_or_there_twice(tmp_path, context, paragraphs):
    answer = {"type": "value", "answer_value": "7"}
    asked = {"question": "How old?", "context": context, "answer": answer}
    record = {"title": "Bonn", "text": "A city.", "questions": [asked]}
    assert supporting_facts_of("iirc:{}", [record], tmp_path) == [SupportingFacts(paragraphs)]
    assert supporting_facts_of("iirc:{}", [record | {"text": ""}], tmp_path) == [
        SupportingFacts(tuple(each for each in paragraphs if each.title != "Bonn"))
    ]


def test_flashrag_of_hotpotqa():
    first, second, last = read("hotpotqa:flashrag_hotpotqa.jsonl")
    mann = Paragraph("Thomas Mann", "He was born in Lübeck.", ((0, 22),))
    assert first.supporting_facts == SupportingFacts((mann, Paragraph("Lübeck", "A city.")))
    assert second.supporting_facts == last.supporting_facts == SupportingFacts()


def test_flashrag_of_two_wiki(tmp_path):
    content = flashrag(
        supporting_facts={"title": ["Thomas Mann", "Lübeck"], "sent_id": [0, 2]},
        context={
            "title": ["Thomas Mann", "Lübeck"],
            "content": [
                ["He was born in Lübeck.", "He wrote Buddenbrooks."],
                ["A city.", "It is old.", "It lies on the Trave."],
            ],
        },
        evidences={"fact": ["Thomas Mann"], "relation": ["place of birth"], "entity": ["Lübeck"]},
    )
    supporting_facts = SupportingFacts((MANN, LUBECK), (Triple("Thomas Mann", "place of birth", "Lübeck"),))
    assert supporting_facts_of("2wikimultihopqa:{}", content, tmp_path) == [supporting_facts]


def test_flashrag_of_musique():
    first, second, last = read("musique:flashrag_musique.jsonl")
    assert first.supporting_facts == SupportingFacts(
        (
            Paragraph("Galileo", "He was born in Pisa.", ((0, 20),)),
            Paragraph("Pisa", "It lies on the Arno.", ((0, 20),)),
        ),
        steps=(
            ReasoningStep("Where was Galileo born?", "Pisa"),
            ReasoningStep("Which river flows through #1?", "Arno"),
        ),
    )
    assert second.supporting_facts == last.supporting_facts == SupportingFacts()


def test_a_paragraph_that_two_hops_of_flashrag_share_is_there_once(tmp_path):
    paragraph = {"title": "Pisa", "paragraph_text": "It lies on the Arno."}
    hops = [{"question": f"{number}?", "answer": "a", "support_paragraph": paragraph} for number in (1, 2)]
    (supporting_facts,) = supporting_facts_of("musique:{}", flashrag(question_decomposition=hops), tmp_path)
    assert supporting_facts.paragraphs == (Paragraph("Pisa", "It lies on the Arno.", ((0, 20),)),)
    assert supporting_facts.steps == (ReasoningStep("1?", "a"), ReasoningStep("2?", "a"))


@pytest.mark.parametrize(
    "metadata",
    [
        {"context": "A city.", "evidences": ["old"]},
        {"context": {"title": ["Bonn"], "sentences": [["A."]]}, "supporting_facts": None},
        {"context": {"title": ["Bonn"], "sentences": [["A."]]}, "supporting_facts": {"title": ["Bonn"]}},
        {"context": None, "evidences": None, "supporting_facts": {"title": ["Bonn"], "sent_id": [0]}},
    ],
)
def test_a_context_of_flashrag_without_the_facts_is_passed_over(tmp_path, metadata):
    assert supporting_facts_of("jsonl:{}", flashrag(**metadata), tmp_path) == [SupportingFacts()]
