"""The reader of mail."""

from collections.abc import Callable, Iterator
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from email.policy import EmailPolicy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from askance.core.errors import DocumentError
from askance.retrieval.index.formats.content import (
    DocumentRow,
    Rows,
    TextBuilder,
    UnreadableFile,
    UnreadPart,
    check_size,
)
from askance.retrieval.index.formats.encodings import decoded
from askance.retrieval.index.formats.html import add_page, decoded_page

MAX_MAIL_BYTES = 64_000_000
MAX_PARTS = 1_000
MAX_DEPTH = 4
"""How deep messages and attachments may be nested."""
MAX_HEADER_CHARACTERS = 50_000
"""What is read of a header. The parser of headers copies the rest of a header for each word of it."""
_MAX_NAME_CHARACTERS = 255
_HEADERS = ("From", "To", "Cc", "Date")
ReadFile = Callable[[Path], Rows]


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
    try:
        with path.open("rb") as file:
            message = BytesParser(policy=_POLICY).parse(file)
        if not message.keys():
            raise UnreadableFile("no mail: it has no headers")
        reader = _Reader(read_file)
        reader.add(message, 1)
    except RecursionError as error:
        raise UnreadableFile("its parts are nested too deep") from error
    yield reader.text.document(_header(message, "Subject"), _header(message, "From"))
    yield from reader.unread


class _BoundedHeaders(EmailPolicy):
    """The default policy, except that the end of a header that is too long is left out."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:MAX_HEADER_CHARACTERS]


_POLICY = cast("EmailPolicy[EmailMessage]", _BoundedHeaders())


class _Reader:
    def __init__(self, read_file: ReadFile) -> None:
        self.text = TextBuilder()
        self.unread: list[UnreadPart] = []
        self._read_file = read_file
        self._num_parts = 0

    def add(self, message: EmailMessage, depth: int) -> None:
        """Append a message with its attachments."""
        headers = [f"{name}: {value}" for name in _HEADERS if (value := _header(message, name))]
        if depth > 1:
            self.text.section(_header(message, "Subject") or "attached message", page=0)
            headers.insert(0, f"Subject: {_header(message, 'Subject')}")
        self.text.paragraph("\n".join(headers))
        body = message.get_body(("plain", "html"))
        if body is not None:
            content = _content(body)
            if body.get_content_subtype() == "html":
                add_page(self.text, decoded_page(content))
            else:
                charset = str(body.get_content_charset() or "")
                self.text.paragraph(decoded(content, charset).replace("\r\n", "\n"))
        for part in _attachments(message):
            self._num_parts += 1
            given = " ".join((part.get_filename() or "").split())
            name = given[-_MAX_NAME_CHARACTERS:] or f"attachment {self._num_parts}"
            if self._num_parts > MAX_PARTS:
                self.unread.append(UnreadPart(name, f"one of more than {MAX_PARTS:,} attachments"))
                return
            if part.get_content_type() == "message/rfc822":
                inner = part.get_payload()
                self._add_inner(name, inner[0] if isinstance(inner, list) else None, depth)
            elif part.get_filename() and Path(name).suffix.lower() == ".eml":
                self._add_inner(name, BytesParser(policy=_POLICY).parsebytes(_content(part)), depth)
            elif part.get_filename():
                self._attach(name, part)

    def _add_inner(self, name: str, message: object, depth: int) -> None:
        if isinstance(message, EmailMessage) and depth < MAX_DEPTH:
            self.add(message, depth + 1)
        else:
            self.unread.append(UnreadPart(name, f"a message nested more than {MAX_DEPTH} deep"))

    def _attach(self, name: str, part: EmailMessage) -> None:
        with TemporaryDirectory(prefix="askance-mail-") as folder:
            # The name in the message may hold slashes or be too long, and only its end says what it is.
            path = Path(folder, "attachment" + "".join(Path(name).suffixes[-2:])[-20:].replace("\0", ""))
            path.write_bytes(_content(part))
            try:
                for row in self._read_file(path):
                    if isinstance(row, DocumentRow):
                        self.text.append(row, name)
                    else:
                        self.unread.append(row)
            except UnreadableFile as error:
                self.unread.append(UnreadPart(name, str(error)))
            except DocumentError as error:
                self.unread.append(UnreadPart(name, str(error).replace(str(path), name)))


def _attachments(message: EmailMessage) -> Iterator[EmailMessage]:
    try:
        yield from message.iter_attachments()
    except (TypeError, AttributeError, KeyError):  # a malformed multipart message has none
        return


def _content(part: MIMEPart) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _header(message: EmailMessage, name: str) -> str:
    try:
        value = str(message.get(name) or "")
    except (ValueError, IndexError, AttributeError, TypeError):  # the parser of headers fails on some
        return ""
    return " ".join(value.split())
