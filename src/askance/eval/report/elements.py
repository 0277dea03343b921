"""Elements of a page. Everything in them is escaped when it is written: questions and answers are data."""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, tostring

from askance.text.printable import printable

Content = Element | str


def element(tag: str, *content: Content, **attributes: object) -> Element:
    """``element("td", "0.5", class_="number")``: a trailing underscore is dropped, others become hyphens."""
    made = Element(tag, {_attribute(name): printable(str(value)) for name, value in attributes.items()})
    for part in content:
        if isinstance(part, Element):
            made.append(part)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + printable(part)
        else:
            made.text = (made.text or "") + printable(part)
    return made


def elements(tag: str, texts: Sequence[str]) -> list[Element]:
    """One element a text."""
    return [element(tag, text) for text in texts]


def html_text(page: Element) -> str:
    """The page as it stands in a file."""
    return "<!doctype html>\n" + tostring(page, encoding="unicode", method="html") + "\n"


def _attribute(name: str) -> str:
    return name.removesuffix("_").replace("_", "-")
