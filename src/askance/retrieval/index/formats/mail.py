"""The readers of mail, also as Outlook saves it."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from email.message import Message
from email.parser import BytesParser
from email.policy import Compat32, default
from mimetypes import guess_extension
from pathlib import Path
from typing import Any

from askance.retrieval.index.formats.content import (
    ReadFile,
    Rows,
    TextBuilder,
    UnreadableFile,
    UnreadPart,
    check_size,
    unreadable,
)
from askance.retrieval.index.formats.encodings import decoded
from askance.retrieval.index.formats.html import add_page, decoded_page

MAX_MAIL_BYTES = 64_000_000
MAX_ATTACHMENTS = 1_000
MAX_DEPTH = 4
"""How deep messages and attachments may be nested."""
MAX_HEADER_CHARACTERS = 50_000
"""What is read of a header. The parser of headers copies the rest of a header for each word of it."""
MAX_CONTENT_HEADER_CHARACTERS = 2_000
"""What is read of a header about a part's content, which is parsed several times."""
_MAX_NAME_CHARACTERS = 255
_TEXTS = ("text/plain", "text/html")
_HEADERS = ("From", "To", "Cc", "Date")
_SUBJECT, _SENDER, _TO, _CC, _BODY, _HTML = "0037", "0C1A", "0E04", "0E03", "1000", "1013"
_ADDRESS, _NAME, _SHORT_NAME, _CONTENT = "5D01", "3707", "3704", "3701"
"""The tags of properties (MS-OXPROPS)."""
_CODE_PAGE = re.compile(rb"\x03\x00\xfd\x3f.{4}(..)", re.DOTALL)
_ATTACHMENT = "__attach_version1.0_"


def read_mail(path: Path, read_file: ReadFile) -> Rows:
    """Yield a message as one row: its headers, its text, and the text of its attachments.

    The title is the subject. Attachments are sections that have the names of their files. Attached messages
    are read likewise.

    Args:
        read_file: Reads an attachment, which was written to a temporary file.

    Raises:
        UnreadableFile: The file is too large, or no message.
    """
    check_size(path.stat().st_size, MAX_MAIL_BYTES)
    reader = _Reader(read_file)
    with unreadable("its parts are nested too deep", RecursionError):
        message = _PARSER.parsebytes(path.read_bytes())
        if not message.keys():
            raise UnreadableFile("no mail: it has no headers")
        reader.add(message, 1)
    yield reader.text.document(_header(message, "Subject"), _header(message, "From"))
    yield from reader.all_unread()


def read_msg(path: Path, read_file: ReadFile) -> Rows:
    """Yield a message as one row: its headers, its text, and the text of its attachments.

    Args:
        read_file: Reads an attachment, which was written to a temporary file.

    Raises:
        UnreadableFile: The file is too large, or no message.
    """
    import olefile

    check_size(path.stat().st_size, MAX_MAIL_BYTES)
    damage = unreadable("no message of Outlook that can be read", OSError, IndexError, ValueError)
    with damage, olefile.OleFileIO(path) as file:
        reader = _OutlookReader(file, read_file)
        reader.add("", 1)
        yield reader.text.document(reader.property("", _SUBJECT), reader.property("", _SENDER))
    yield from reader.all_unread()


class _BoundedHeaders(Compat32):
    """The policy that parses no header before it is needed, and cuts the end of a long one."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        is_of_content = name.lower().startswith("content-")
        return name, value[: MAX_CONTENT_HEADER_CHARACTERS if is_of_content else MAX_HEADER_CHARACTERS]


_PARSER = BytesParser(policy=_BoundedHeaders())


class MessageBuilder:
    """The text of a message and its attachments, and what of them could not be read."""

    def __init__(self, read_file: ReadFile) -> None:
        self.text = TextBuilder()
        self._read_file = read_file
        self._num_attachments, self._first_beyond = 0, ""

    def begin(self, headers: Mapping[str, str], depth: int) -> None:
        """Append the headers of a message. The subject of an attached message names its section."""
        if depth > 1:
            self.text.section(headers["Subject"] or "attached message", page=0)
        shown = (f"{name}: {value}" for name, value in headers.items() if name != "Subject" or depth > 1)
        self.text.paragraph("\n".join(line for line in shown if not line.endswith(": ")))

    def can_read(self, name: str, depth: int = 0) -> bool:
        """Return whether a further attachment can be read, and count it. Messages have a depth."""
        self._num_attachments += 1
        if depth == MAX_DEPTH:
            self.text.unread.append(UnreadPart(name, f"a message nested more than {MAX_DEPTH} deep"))
        if self._num_attachments == MAX_ATTACHMENTS + 1:
            self._first_beyond = name
        return depth < MAX_DEPTH and self._num_attachments <= MAX_ATTACHMENTS

    def all_unread(self) -> Iterator[UnreadPart]:
        """Yield what was not read, with the attachments beyond the bound as one."""
        yield from self.text.unread
        if num_beyond := max(0, self._num_attachments - MAX_ATTACHMENTS):
            name = f"{self._first_beyond} and the attachments after it, {num_beyond:,} in all"
            yield UnreadPart(name, f"up to {MAX_ATTACHMENTS:,} attachments are read")

    def attach(self, name: str, content: bytes) -> None:
        """Append the text of an attachment, or keep the reason why there is none."""
        # The name in the message may hold slashes or be too long, and only its end says what it is.
        suffix = "".join(Path(name).suffixes[-2:])[-20:].replace("\0", "")
        self.text.attach(content, suffix, self._read_file, name, section=name)


class _Reader(MessageBuilder):
    def add(self, message: Message, depth: int) -> None:
        """Append a message with its attachments."""
        self.begin({name: _header(message, name) for name in ("Subject", *_HEADERS)}, depth)
        self._add_content(message, depth)

    def _add_content(self, message: Message, depth: int) -> None:
        attachments = list[Message]()
        self._add_text(message, attachments)
        for part in attachments:
            self._add_attachment(part, depth)

    def _add_text(self, part: Message, attachments: list[Message], is_shown: bool = True) -> None:
        """Append the text of a part, and collect its attachments, also those of alternatives not shown."""
        kind, inner, shown = part.get_content_type(), _inner_parts(part), None
        if kind.startswith("multipart/"):
            if kind == "multipart/alternative":
                shown = _shown_alternative(inner)
            for each in inner[:1] if kind == "multipart/signed" else inner:  # a signature follows
                if _is_attachment(each):
                    attachments.append(each)
                elif kind != "multipart/related" or each.get_content_maintype() != "image":
                    self._add_text(each, attachments, is_shown and shown in (None, each))
        elif is_shown and kind in _TEXTS:
            try:
                if kind == "text/html":
                    add_page(self.text, decoded_page(_content(part), _charset(part)))
                else:
                    self.text.paragraph(_plain_text(part))
            except UnreadableFile as error:
                self.text.unread.append(UnreadPart("the text of the message", str(error)))

    def _add_attachment(self, part: Message, depth: int) -> None:
        kind, inner = part.get_content_type(), _inner_parts(part)
        name = _unencoded("Subject", part.get_filename() or "")[-_MAX_NAME_CHARACTERS:]
        name = name or f"attachment{guess_extension(kind) or ''}"
        is_mail_file = Path(name).suffix.lower() == ".eml"
        if not self.can_read(name, depth if inner or is_mail_file else 0):
            return
        if inner and kind.startswith("multipart/"):
            self.text.section(name, page=0)
            self._add_content(part, depth + 1)
        elif inner or is_mail_file:
            self.add(inner[0] if inner else _PARSER.parsebytes(_content(part)), depth + 1)
        else:
            self.attach(name, _content(part))


def _inner_parts(part: Message) -> list[Message]:
    return part.get_payload() if part.is_multipart() else []  # type: ignore[return-value]


def _is_attachment(part: Message) -> bool:
    kind = part.get_content_type()
    is_file = kind == "message/rfc822" or bool(part.get_filename() and kind not in _TEXTS)
    return is_file or part.get_content_disposition() == "attachment"


def _shown_alternative(parts: list[Message]) -> Message | None:
    """Return the alternative that has plain text or else HTML."""
    for kind in _TEXTS:
        for part in parts:
            if any(leaf.get_content_type() == kind and _content(leaf).strip() for leaf in part.walk()):
                return part
    return None


def _plain_text(part: Message) -> str:
    """Return plain text, with the lines joined that the sender's program broke (RFC 3676)."""
    text = decoded(_content(part), _charset(part)).replace("\r\n", "\n")
    if str(part.get_param("format")).lower() != "flowed":
        return text
    end = -1 if str(part.get_param("delsp")).lower() == "yes" else None
    pieces, open_quote = list[str](), None
    for line in text.split("\n"):
        bare = line.lstrip(">")
        quote, bare = line[: len(line) - len(bare)], bare.removeprefix(" ")
        is_open = bare.endswith(" ") and bare != "-- "
        start = "" if quote == open_quote else f"\n{quote} " if quote else "\n"
        pieces.append(start + (bare[:end] if is_open else bare))
        open_quote = quote if is_open else None
    return "".join(pieces)


def _content(part: Message) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _charset(part: Message) -> str:
    return str(part.get_content_charset() or "")


def _header(message: Message, name: str) -> str:
    values = (value for key, value in message.raw_items() if key.lower() == name.lower())
    return _unencoded(name, next(values, ""))


def _unencoded(name: str, value: str) -> str:
    """Return the value of a header on one line, without the encoding of characters beyond ASCII."""
    value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    with suppress(ValueError, IndexError, AttributeError, TypeError):  # the parser of headers fails on some
        value = str(default.header_factory(name, value))
    return " ".join(value.split())


class _OutlookReader(MessageBuilder):
    def __init__(self, file: Any, read_file: ReadFile) -> None:
        super().__init__(read_file)
        self._file = file
        self._folders = ["/".join(names) for names in file.listdir(streams=False, storages=True)]

    def add(self, folder: str, depth: int) -> None:
        """Append the message in a folder of the file with its attachments."""
        sender, address = self.property(folder, _SENDER), self.property(folder, _ADDRESS)
        headers = {
            "Subject": self.property(folder, _SUBJECT),
            "From": f"{sender} <{address}>" if address else sender,
            "To": self.property(folder, _TO),
            "Cc": self.property(folder, _CC),
        }
        self.begin(headers, depth)
        if body := self.property(folder, _BODY):
            self.text.paragraph(body)
        else:
            add_page(self.text, self.property(folder, _HTML) or decoded_page(self._bytes(folder, _HTML)))
        for attachment in self._folders:
            if attachment.startswith(folder + _ATTACHMENT) and "/" not in attachment[len(folder) :]:
                self._add_attachment(f"{attachment}/", depth)

    def property(self, folder: str, tag: str) -> str:
        """Return the text of a property of a message or an attachment, empty if it has none."""
        if text := self._bytes(folder, tag, "001F"):
            return text.decode("utf-16-le", "replace").strip("\0").replace("\r\n", "\n")
        found = _CODE_PAGE.search(self._stream(f"{folder}__properties_version1.0"))
        code_page = f"cp{int.from_bytes(found[1], 'little')}" if found else ""
        return decoded(self._bytes(folder, tag, "001E"), code_page).strip("\0").replace("\r\n", "\n")

    def _add_attachment(self, folder: str, depth: int) -> None:
        inner = f"{folder}__substg1.0_{_CONTENT}000D"
        is_message = inner in self._folders
        name = self.property(folder, _NAME) or self.property(folder, _SHORT_NAME) or "attachment"
        if self.can_read(name, depth if is_message else 0):
            if is_message:
                self.add(f"{inner}/", depth + 1)
            else:
                self.attach(name, self._bytes(folder, _CONTENT))

    def _bytes(self, folder: str, tag: str, kind: str = "0102") -> bytes:
        return self._stream(f"{folder}__substg1.0_{tag}{kind}")

    def _stream(self, name: str) -> bytes:
        return bytes(self._file.openstream(name).read()) if self._file.exists(name) else b""
