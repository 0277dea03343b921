"""The reader of EPUB books."""

from contextlib import suppress
from pathlib import Path
from posixpath import dirname

from askance.retrieval.index.formats.content import Rows, TextBuilder, UnreadableFile
from askance.retrieval.index.formats.html import add_page, decoded_page
from askance.retrieval.index.formats.packages import InvalidXml, Package, joined, open_package

_EPUB = "META-INF/container.xml"
_CONTENTS = "application/x-dtbncx+xml"
_FONT_ENCRYPTION = "idpf.org/2008/embedding"


def read_epub(path: Path) -> Rows:
    """Yield a book as one row, with its chapters in reading order and their headings as sections.

    Raises:
        UnreadableFile: The file is damaged, encrypted or too large. A damaged table of contents is no error.
    """
    with open_package(path) as package:
        encryption = package.events("META-INF/encryption.xml")
        algorithms = filter(None, (given.get("Algorithm") for _, _, given in encryption))
        if any(_FONT_ENCRYPTION not in algorithm and "adobe" not in algorithm for algorithm in algorithms):
            raise UnreadableFile("a book with copy protection")
        paths = [
            given["full-path"] for given in package.attributes(_EPUB, "rootfile") if "full-path" in given
        ]
        if not paths:
            raise UnreadableFile("damaged: it does not name its content")
        members, chapters, folder = dict[str, str](), dict[str, str](), dirname(paths[0])
        for given in package.attributes(paths[0], "item"):
            member = members[given.get("id", "")] = given.get("href", "")
            if given.get("media-type") == _CONTENTS or "nav" in given.get("properties", "").split():
                chapters |= _chapter_names(package, joined(folder, member))
        spine = [members.get(given.get("idref", "")) for given in package.attributes(paths[0], "itemref")]
        text = TextBuilder()
        for member in filter(None, dict.fromkeys(spine)):  # a chapter has one place in a book
            if (name := joined(folder, member)) in package:
                if name in chapters:
                    text.section(chapters[name])
                add_page(text, decoded_page(package.read(name)))
        yield text.document(package.text_of(paths[0], "title"), package.text_of(paths[0], "creator"))


def _chapter_names(package: Package, name: str) -> dict[str, str]:
    """Return the names of the members in a table of contents of EPUB 2 or 3.

    Other lists of links, such as landmarks, count only without a table of contents. If the XML is not valid
    or declares entities, there are no names.

    Raises:
        UnreadableFile: The table of contents is too large.
    """
    names = dict[str, str]()
    with suppress(InvalidXml):
        tree = package.tree(name)
        contents = [each for each in tree.iter("nav") if "toc" in each.get("type", "").split()]
        for each in (each for part in contents or [tree] for each in part.iter()):
            link, label = (each, each) if each.tag == "a" else (each.find("content"), each.find("navLabel"))
            if link is not None and label is not None:
                target = link.get("src", "") or link.get("href", "")
                member = joined(dirname(name), target.partition("#")[0])
                names.setdefault(member, "".join(label.itertext()))
    return names
