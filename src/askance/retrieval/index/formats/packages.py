"""Documents that are packages: ZIP archives of XML files, read in bounded memory.

Nothing is unpacked to disk, XML entities are refused, and the sizes that an archive declares are checked
before anything is read. `zipfile` reads no more of a member than the archive declares.
"""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from html.entities import html5
from pathlib import Path
from posixpath import join, normpath
from urllib.parse import unquote
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from askance.retrieval.index.formats.content import UnreadableFile, check_size, unreadable

MAX_MEMBERS = 20_000
MAX_MEMBER_BYTES = 400_000_000
"""The largest file in an archive that is read, unpacked."""
MAX_PACKAGE_BYTES = 800_000_000
"""What may be read of an archive in all, unpacked."""
MAX_RATIO = 400
"""The greatest ratio of unpacked to packed bytes; office files with repetitive tables reach about 100."""
MAX_UNCHECKED_BYTES = 16_000_000
"""A member that unpacks to no more than this may have any ratio."""
MAX_DEPTH = 5_000
"""How deep XML elements may be nested."""
_BLOCK_BYTES = 1 << 16
_MIN_BYTES_READ = 1 << 12
"""What each reading of a member counts for at least, as a file can refer to a member any number of times."""
_MAX_SHOWN = 100
DAMAGED = "damaged, or not of the kind that its name says"
_OLE = b"\xd0\xcf\x11\xe0"
_DAMAGE = (
    zipfile.BadZipFile, EOFError, OSError, OverflowError, RuntimeError, ValueError, struct.error, zlib.error
)  # fmt: skip
"""What `zipfile` raises for an archive that is damaged or encrypted."""
Attributes = dict[str, str]


XmlEvent = tuple[str, str, Attributes]
"""The start or the end of an XML element, or text: "start", "end" or "text"; the name of the element or the
text; and the attributes of a starting element. Names are without namespaces."""


class InvalidXml(UnreadableFile):
    """An XML member is not valid, or declares entities."""


@dataclass(slots=True)
class Package:
    """An open ZIP archive."""

    archive: zipfile.ZipFile
    num_bytes_read: int = 0

    def __contains__(self, name: str) -> bool:
        return name in self.archive.NameToInfo

    def num_bytes(self, name: str) -> int:
        """Return the unpacked size of a member, or 0 if there is none."""
        return self.archive.NameToInfo[name].file_size if name in self else 0

    def read(self, name: str) -> bytes:
        """Return the content of a member.

        Raises:
            UnreadableFile: There is no such member, or it is too large or damaged.
        """
        info = self._checked(name)
        with unreadable(DAMAGED, *_DAMAGE):
            return self.archive.read(info)

    def events(self, name: str) -> Iterator[XmlEvent]:
        """Yield the content of an XML member in order. Missing members have none.

        References to the entities of HTML, such as "&nbsp;", are characters.

        Raises:
            InvalidXml: The member is no valid XML, or declares entities.
            UnreadableFile: The member is too large or damaged, or its elements are nested too deep.
        """
        if name not in self:
            return
        events: list[XmlEvent] = []
        parser = _parser(events)
        with unreadable(DAMAGED, *_DAMAGE), self.archive.open(self._checked(name)) as file:
            is_read = False
            while not is_read:
                block = file.read(_BLOCK_BYTES)
                is_read = not block
                try:
                    parser.Parse(block, is_read)
                except (KeyError, IndexError):
                    raise  # by a handler
                except (expat.ExpatError, LookupError) as error:  # the latter for an unknown encoding
                    raise InvalidXml(f"damaged: {name} in it is not valid XML ({error})") from error
                yield from events
                events.clear()

    def elements(self, name: str, element: str = "") -> Iterator[Element]:
        """Yield the elements of this name in an XML member as trees, or the whole member if no name is given.

        Raises:
            UnreadableFile: See `events`.
        """
        events = self.events(name)
        for kind, value, attributes in events:
            if kind == "start" and element in ("", value):
                yield tree_of(value, attributes, events)

    def tree(self, name: str) -> Element:
        """Return an XML member as a tree. It has to be a small one; one that is missing has no elements."""
        return next(iter([*self.elements(name), Element("")]))

    def attributes(self, name: str, element: str) -> list[Attributes]:
        """Return the attributes of each element of this name in an XML member, in order."""
        return [each.attrib for each in self.tree(name).iter(element)]

    def relations(self, name: str) -> dict[str, str]:
        """Return the members that a member of an Office file refers to, by relation id."""
        return {given.get("Id", ""): target for given, target in self._relations(name)}

    def part(self, kind: str, usual: str, of: str = "") -> str:
        """Return the part of an Office file that has a relation of this kind (ISO/IEC 29500-2).

        Args:
            kind: The last part of the relation's type, such as "styles".
            usual: The member to return if there is no such relation.
            of: The member that has the relation, or an empty string for the file itself.
        """
        kinds = ((given.get("Type", "").rpartition("/")[2], target) for given, target in self._relations(of))
        return next((target for found, target in kinds if found == kind), usual)

    def main_part(self, usual: str) -> str:
        """Return the part of an Office file that all others belong to.

        Raises:
            UnreadableFile: There is no such part.
        """
        main = self.part("officeDocument", usual)
        if main not in self or main.endswith(".rels"):
            raise UnreadableFile(f"damaged: it lacks its main part ({main[:_MAX_SHOWN]})")
        return main

    def title_and_author(self) -> tuple[str, str]:
        """Return the title and the author in the properties of an Office file, or empty strings."""
        properties = self.part("core-properties", "docProps/core.xml")
        return self.text_of(properties, "title"), self.text_of(properties, "creator")

    def text_of(self, name: str, element: str) -> str:
        """Return the text of the first element of this name in an XML member, or an empty string."""
        found = self.tree(name).find(f".//{element}")
        return "" if found is None else "".join(found.itertext())

    def _relations(self, name: str) -> Iterator[tuple[Attributes, str]]:
        """Yield the attributes and the target of each relation to another member."""
        folder, _, file = name.rpartition("/")
        for given in self.attributes(f"{folder}/_rels/{file}.rels".lstrip("/"), "Relationship"):
            if given.get("TargetMode") != "External":
                yield given, joined(folder, given.get("Target", ""))

    def _checked(self, name: str) -> zipfile.ZipInfo:
        info = self.archive.NameToInfo.get(name)
        if info is None:
            raise UnreadableFile(f"damaged: it lacks {name}")
        self.num_bytes_read += max(info.file_size, _MIN_BYTES_READ)
        check_size(info.file_size, MAX_MEMBER_BYTES)
        check_size(self.num_bytes_read, MAX_PACKAGE_BYTES)
        if info.flag_bits & 1:
            raise UnreadableFile("encrypted; remove its password first")
        if info.file_size > max(MAX_UNCHECKED_BYTES, MAX_RATIO * info.compress_size):
            raise UnreadableFile(f"{name} in it unpacks to more than {MAX_RATIO} times its size")
        return info


@contextmanager
def open_package(path: Path) -> Iterator[Package]:
    """Open a document that is a ZIP archive.

    Raises:
        UnreadableFile: The file is no ZIP archive, is too large, or has too many members.
        OSError: The file can't be read.
    """
    check_size(path.stat().st_size)
    with path.open("rb") as file:
        if file.read(len(_OLE)) == _OLE:
            raise UnreadableFile(
                "encrypted, or in an older format; save it without a password, in its format"
            )
    with unreadable(DAMAGED, *_DAMAGE):
        opened = zipfile.ZipFile(path)
    with opened as archive:
        if len(archive.NameToInfo) > MAX_MEMBERS:
            raise UnreadableFile(f"an archive of more than {MAX_MEMBERS:,} files")
        yield Package(archive)


def tree_of(name: str, attributes: Attributes, events: Iterator[XmlEvent]) -> Element:
    """Return an element as a tree, given its start and the events that follow it, up to its end."""
    builder, num_open = TreeBuilder(), 1
    builder.start(name, attributes)
    while num_open:
        kind, value, given = next(events)
        if kind == "start":
            builder.start(value, given)
        elif kind == "text":
            builder.data(value)
        else:
            builder.end(value)
        num_open += {"start": 1, "end": -1}.get(kind, 0)
    return builder.close()


def whole_number(written: str | None, default: int) -> int:
    """Return the number in an attribute, or `default` if there is none, or one of more than nine digits."""
    digits = written or ""
    is_number = digits.isascii() and digits.isdecimal() and len(digits) < 10
    return int(digits) if is_number else default


def joined(folder: str, target: str) -> str:
    """Return the member that a path refers to, given the folder of the file that contains the path."""
    return normpath(join("/", folder, unquote(target))).lstrip("/")


@lru_cache(maxsize=1_000)
def _local(name: str) -> str:
    """Return a name without its namespace; most names are of a few kinds."""
    return name.rpartition(" ")[2]


def _parser(events: list[XmlEvent]) -> expat.XMLParserType:
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.UseForeignDTD(True)  # so that a reference to an unknown entity is passed on, not refused
    depth = 0

    def start(name: str, attributes: Attributes) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise UnreadableFile(f"more than {MAX_DEPTH:,} XML elements are nested")
        events.append(("start", _local(name), {_local(key): value for key, value in attributes.items()}))

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        events.append(("end", _local(name), {}))

    def text(data: str) -> None:
        events.append(("text", data, {}))

    def refuse(*_: object) -> None:
        raise InvalidXml("declares XML entities, which may expand without bound")

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.SkippedEntityHandler = lambda name, _: text(html5.get(f"{name};", ""))
    parser.EntityDeclHandler = refuse
    return parser
