from askance.evaluation.datasets.example import (
    Paragraph,
    ReasoningStep,
    SupportingFacts,
    Triple,
    complete_triples,
    paragraph_from_sentences,
    places,
    reasoning_steps,
    whole,
)


def test_sentences_are_joined_by_one_blank_whatever_white_space_they_bring():
    texts = {
        paragraph_from_sentences("Bonn", sentences, ()).text
        for sentences in (
            ["A city.", "On the Rhine.", "Old."],
            ["A city.", " On the Rhine.", " Old."],
            ["A city. ", "On the Rhine. ", "Old.\n"],
            ["", "A city.", " ", "On the Rhine.", "", "Old.", ""],
        )
    }
    assert texts == {"A city. On the Rhine. Old."}


def test_supporting_sentences_are_evidence_by_their_number_in_the_dataset():
    paragraph = paragraph_from_sentences("Bonn", ["A city.", "", " On the Rhine.", " Old."], {0, 2})
    assert paragraph == Paragraph("Bonn", "A city. On the Rhine. Old.", ((0, 7), (8, 21)))
    assert paragraph.evidence_texts == ("A city.", "On the Rhine.")
    assert paragraph.is_supporting


def test_a_number_that_is_not_there_or_of_a_blank_sentence_is_passed_over():
    paragraph = paragraph_from_sentences("Bonn", ["A city.", " "], {1, 2, -1})
    assert paragraph == Paragraph("Bonn", "A city.")
    assert not paragraph.is_supporting


def test_no_sentences_give_an_empty_text():
    assert paragraph_from_sentences("Bonn", [], {0}) == Paragraph("Bonn", "")


def test_only_what_has_evidence_is_supporting():
    rhine, elbe = Paragraph("Rhine", "Long.", whole("Long.")), Paragraph("Elbe", "Long.")
    assert SupportingFacts((elbe, rhine)).supporting == (rhine,)


def test_places_are_in_the_order_of_the_text_and_each_once():
    text = "Old. On the Rhine. Old."
    assert places(text, ["On the Rhine.", " Old. ", "Old.", "New.", " "]) == ((0, 4), (5, 18))
    assert places("", ["Old."]) == ()


def test_whole():
    assert whole("Bonn") == ((0, 4),)


def test_a_triple_with_a_blank_part_is_left_out():
    rows = [["Bonn", "river", "Rhine"], ["Bonn", "mayor", ""], ("Rhine", "mouth", "North Sea")]
    assert complete_triples(rows) == (Triple("Bonn", "river", "Rhine"), Triple("Rhine", "mouth", "North Sea"))


def test_steps_are_complete_or_not_told():
    rows = [("Who wrote Fidelio?", "Beethoven"), ("Where was #1 born?", "")]
    assert reasoning_steps(rows) == (
        ReasoningStep("Who wrote Fidelio?", "Beethoven"),
        ReasoningStep("Where was #1 born?"),
    )
    assert reasoning_steps([*rows, (" ", "Bonn")]) == ()
