"""The content that other programs write into files: made-up words in titled texts and tables."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import product

AUTHOR = "Mira Holt"
HEADER = ("Name", "Load", "Remark")
PRICES = ("Article", "Price", "Since")
SINCE = "2021-03-01"
_SYLLABLES = "ba de fi go ku la me ni po ru sa te vi wo zu xa".split()
FILLER = "The drone flies over the fields and hills in the north of the country when the wind is weak."
"""A sentence of 20 words, so that each section is long enough for a passage of its own."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A made-up word that a program wrote into its file, and what a search for the word should show.

    Attributes:
        places: The page and the section that the citation has to name, or one of them, in its words.
        author: The author that the file states; empty if it states none.
    """

    word: str
    title: str
    places: tuple[str, ...] = ()
    author: str = ""


def made_up_words() -> Iterator[str]:
    """Yield words that occur in no language, each with a letter that is not in ASCII."""
    return (f"qué{''.join(syllables)}k" for syllables in product(_SYLLABLES, repeat=3))


@dataclass(frozen=True, slots=True)
class Content:
    """The content of one file, with words that no other file has.

    A handbook has two sections, "Payload" with a list and a table, and "Range" with a note. Both have a
    made-up word in their headings.
    """

    name: str
    words: Iterator[str]
    facts: list[Fact] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The title, which differs from the name of the file."""
        return f"Handbook of {self.name}"

    def word(self, *places: str, title: str = "", author: str = AUTHOR) -> str:
        """Return a new word, which is a fact from now on. The title is by default that of the content."""
        word = next(self.words)
        self.facts.append(Fact(word, title or self.title, places, author))
        return word

    def handbook(
        self,
        *,
        pages: tuple[str, str] = ("", ""),
        has_sections: bool = True,
        has_note: bool = True,
        author: str = AUTHOR,
    ) -> "Handbook":
        """Return the text of a handbook.

        Args:
            pages: The pages of the two sections, such as "p. 1"; empty if the format has none.
            has_sections: The citations should name the sections.
            has_note: The text has a footnote or the notes of a speaker, whose place is not checked.
        """
        in_headings = next(self.words), next(self.words)
        headings = f"Payload of {in_headings[0]}", f"Range of {in_headings[1]}"
        names = headings if has_sections else ("", "")
        first, second = (tuple(filter(None, each)) for each in zip(pages, names, strict=True))
        for each, places in zip(in_headings, (first, second), strict=True):
            self.facts.append(Fact(each, self.title, places, author))

        def word(*places: str) -> str:
            return self.word(*places, author=author)

        return Handbook(
            self.title,
            headings[0],
            f"{FILLER} It is called {word(*first)} there.",
            f"a box of {word(*first)}",
            ("Model", "Load"),
            (word(*first), "4 kg"),
            headings[1],
            f"{FILLER} Its battery is a {word(*second)} of four cells",
            f"The battery was made by {word()} in the year before." if has_note else "",
        )

    def table(self, *, author: str = "", sheet: str = "", first_row: int = 2) -> list[tuple[str, float, str]]:
        """Return the rows under `HEADER`. A row is found with its own name as its title."""
        place = f"{sheet}, row " if sheet else "row "
        models = (("Kestrel", 4.25), ("Merlin", 7.0))
        return [
            (name, load, f"{FILLER} Its case is {self.word(f'{place}{n}', title=name, author=author)}")
            for n, (name, load) in enumerate(models, start=first_row)
        ]

    def prices(self, title: str, author: str = "") -> tuple[str, float, str]:
        """Return the only row under `PRICES` of a second sheet, whose third cell is a date."""
        return f"rotor {self.word('Prices, row 2', title=title, author=author)}", 99.5, SINCE


@dataclass(frozen=True, slots=True)
class Handbook:
    """The parts of the text of a handbook."""

    title: str
    payload: str
    body: str
    item: str
    header: tuple[str, str]
    row: tuple[str, str]
    range: str
    last: str
    note: str

    @property
    def table(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The header and the row."""
        return self.header, self.row

    @property
    def sections(self) -> tuple[tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]]]:
        """The headings of the two sections with their paragraphs."""
        return (self.payload, (self.body, self.item)), (self.range, (f"{self.last}.", self.note))

    def markdown(self, note: str = "[^1]") -> str:
        """Return the handbook as pandoc's Markdown, with a footnote."""
        definition = f"\n[^1]: {self.note}\n" if self.note and note == "[^1]" else ""
        return (
            f"---\ntitle: {self.title}\nauthor: {AUTHOR}\n---\n\n# {self.payload}\n\n{self.body}\n\n"
            f"- {self.item}\n- a lamp\n\n"
            f"| {' | '.join(self.header)} |\n|---|---|\n| {' | '.join(self.row)} |\n\n"
            f"# {self.range}\n\n{self.last}.{note}\n{definition}"
        )

    def html(self) -> str:
        """Return the handbook as a page whose second section begins on a new printed page."""
        cells = "".join(f"<th>{escape(cell)}</th>" for cell in self.header)
        row = "".join(f"<td>{escape(cell)}</td>" for cell in self.row)
        return (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>'
            f'<meta name="author" content="{AUTHOR}"></head><body><h1>{escape(self.payload)}</h1>'
            f"<p>{escape(self.body)}</p><ul><li>{escape(self.item)}</li><li>a lamp</li></ul>"
            f"<table><tr>{cells}</tr><tr>{row}</tr></table>"
            f'<h1 style="break-before: page">{escape(self.range)}</h1><p>{escape(self.last)}.</p>'
            f"<aside>{escape(self.note)}</aside></body></html>"
        )

    def rst(self) -> str:
        """Return the handbook as reStructuredText."""

        def heading(text: str, mark: str = "=") -> str:
            return f"{text}\n{mark * len(text)}\n"

        return (
            f"{'#' * len(self.title)}\n{heading(self.title, '#')}\n:Author: {AUTHOR}\n\n"
            f"{heading(self.payload)}\n"
            f"{self.body}\n\n- {self.item}\n- a lamp\n\n"
            f".. csv-table::\n   :header: {', '.join(self.header)}\n\n"
            f"   {', '.join(self.row)}\n\n{heading(self.range)}\n{self.last}. [1]_\n\n.. [1] {self.note}\n"
        )
