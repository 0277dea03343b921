"""The reader of messages that Outlook saved."""

import re
from pathlib import Path
from typing import Any

from askance.retrieval.index.formats.content import ReadFile, Rows, check_size, unreadable
from askance.retrieval.index.formats.encodings import decoded
from askance.retrieval.index.formats.html import add_page, decoded_page
from askance.retrieval.index.formats.mail import MAX_MAIL_BYTES, MessageBuilder

_SUBJECT, _SENDER, _TO, _CC, _BODY, _HTML = "0037", "0C1A", "0E04", "0E03", "1000", "1013"
_ADDRESS, _NAME, _SHORT_NAME, _CONTENT = "5D01", "3707", "3704", "3701"
"""The tags of properties (MS-OXPROPS)."""
_CODE_PAGE = re.compile(rb"\x03\x00\xfd\x3f.{4}(..)", re.DOTALL)
_ATTACHMENT = "__attach_version1.0_"


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
        reader = _Reader(file, read_file)
        reader.add("", 1)
        yield reader.text.document(reader.property("", _SUBJECT), reader.property("", _SENDER))
    yield from reader.all_unread()


class _Reader(MessageBuilder):
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
