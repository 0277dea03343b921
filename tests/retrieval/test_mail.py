"""Mail: messages (RFC 5322) and those of Outlook, written here as compound files (MS-CFB, MS-OXMSG)."""

import base64
import struct

import pytest
from tests.retrieval.documents import ATTACHED, multipart, part, row_of, rows, sections, text_pdf

from askance.retrieval.index.formats.content import UnreadableFile, UnreadPart

BASE64 = "Content-Transfer-Encoding: base64"


def encoded(text, encoding=""):
    return base64.b64encode(text.encode(encoding) if encoding else text).decode()


def test_mail_has_its_attachments_as_sections():
    kind = "application/octet-stream"
    head = "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\nFrom: Ada <ada@example.org>\n"
    row, *unread = rows("a.eml", head + multipart(
        "mixed", part("text/plain", "Read this."),
        part(kind, encoded(text_pdf("Some page", "Other page")), BASE64, ATTACHED.format("b.pdf")),
        part(kind, encoded(b"\x89PNG"), BASE64, ATTACHED.format("photo.png")),
        part(kind, '{"no": text', ATTACHED.format("../rows.jsonl")),
    ))  # fmt: skip
    assert row.title == "Grüße"
    assert row.text == "From: Ada <ada@example.org>\n\nRead this.\n\nSome page\nOther page"
    assert sections(row) == [(1, "b.pdf", "Some "), (2, "b.pdf", "Other")]
    assert [each.name for each in unread] == ["photo.png", "../rows.jsonl, line 1"]
    assert unread[0].reason == "unknown kind of file (.png)"
    assert "is no JSON" in unread[1].reason


PICTURE = part("image/png", "AAAA", BASE64, "Content-Disposition: inline")
FLOWED = "text/plain; format=flowed"
UNNAMED = part("text/plain", "Two", "Content-Disposition: attachment")
SIGNED = f"{ATTACHED.format('b.eml')}\n" + multipart("signed", part("text/plain", "Two"))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (multipart("mixed", part("text/plain", "One"), PICTURE, part("text/plain", "Two")), "One\n\nTwo"),
        (multipart("related", part("text/html", "<p>One"), PICTURE), "One"),
        (multipart("alternative", part("text/plain", "One"), part("text/html", "No")), "One"),
        (multipart("alternative", part("text/plain", " "), part("text/html", "One")), "One"),
        (multipart("alternative", part("text/plain", "One"), multipart("mixed", UNNAMED)), "One\n\nTwo"),
        (multipart("mixed", part("text/plain", "One"), SIGNED), "One\n\nTwo"),
        (multipart("mixed", part("text/plain", "One"), UNNAMED), "One\n\nTwo"),
        (part("text/plain; charset=utf-16le", encoded("Zürich", "utf-16-le"), BASE64), "Zürich"),
        (part("text/plain; charset=utf-16", encoded("Москва", "utf-16"), BASE64), "Москва"),
        (part("text/plain; charset=iso-2022-jp", "\x1b$BEl5~\x1b(B"), "東京"),
        (part("text/plain; charset=koi8-r", encoded("Привет", "koi8-r"), BASE64), "Привет"),
        (part("text/plain; charset=iso-8859-1", encoded("“9 €”", "cp1252"), BASE64), "“9 €”"),
        (part("text/plain; charset=us-ascii", encoded("Zürich", "utf-8"), BASE64), "Zürich"),
        (part("text/html; charset=cp1251", encoded("<meta charset=cp1252>Мир", "cp1251"), BASE64), "Мир"),
        (part(FLOWED, "The keel \nis laid.\n From \n> it \n> came.\n-- \nAda"),
         "The keel is laid.\nFrom \n> it came.\n-- \nAda"),
        (part('text/plain; charset="undefined"', encoded("Straße", "latin-1"), BASE64), "Straße"),
        (part(f"{FLOWED}; delsp=yes", "The ke \nel."), "The keel."),
    ],
)  # fmt: skip
def test_what_a_person_sees_of_a_message_is_read(content, text):
    row = row_of("a.eml", f"Subject: Grüße\n{content}")
    assert (row.title, row.text) == ("Grüße", text)


def test_attachments_and_messages_in_messages_are_read_up_to_a_bound():
    parts = (part("text/plain", f"word{n}", ATTACHED.format(f"a{n}.txt")) for n in range(1_010))
    row, unread = rows("a.eml", "Subject: x\n" + multipart("mixed", *parts))
    assert row.text.endswith("word999")
    assert unread.name == "a1000.txt and the attachments after it, 10 in all"
    mail = "Subject: 0\n\ntext 0"
    for number in range(1, 8):
        parts = part("text/plain", f"text {number}"), part("message/rfc822", mail)
        mail = f"Subject: {number}\n" + multipart(f"mixed; x={number}", *parts)
    row, unread = rows("a.eml", mail)
    assert [line for line in row.text.splitlines() if "text" in line] == [f"text {n}" for n in (7, 6, 5, 4)]
    assert "more than 4 deep" in unread.reason


END, FREE, FAT, NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF


def compound_file(tree):
    """Return nested folders and files. Each file is padded, so that it lies in sectors of its own."""
    entries, sectors, fat = [], [], []

    def allocate(content):
        first = len(fat)
        pieces = [content[start : start + 512].ljust(512, b"\0") for start in range(0, len(content), 512)]
        sectors.extend(pieces)
        fat.extend([*range(first + 1, first + len(pieces)), END])
        return first

    def add(name, content):
        number = len(entries)
        entries.append(None)
        first, size, child = 0, 0, NONE
        if isinstance(content, dict):
            for key in reversed(list(content)):
                inner = add(key, content[key])
                entries[inner][2] = child  # the siblings are a chain
                child = inner
        else:
            content = content.ljust(4096, b"\n" if name.endswith("0102") else b"\0")
            first, size = allocate(content), len(content)
        kind = 5 if not number else 1 if isinstance(content, dict) else 2
        entries[number] = [name, kind, NONE, child, END if kind == 5 else first, size]
        return number

    add("Root Entry", tree)
    directory = b"".join(
        struct.pack("<64sHBBIII16sIQQIQ", name.encode("utf-16-le"), 2 * len(name) + 2, kind, 1, NONE, right,
                    child, b"", 0, 0, 0, first, size)
        for name, kind, right, child, first, size in entries
    )  # fmt: skip
    start = allocate(directory)
    num_fat = len(fat) // 126 + 1
    table = range(len(fat), len(fat) + num_fat)
    fat += [FAT] * num_fat
    sectors.append(struct.pack(f"<{128 * num_fat}I", *fat, *[FREE] * (128 * num_fat - len(fat))))
    head = bytes.fromhex("d0cf11e0a1b11ae1").ljust(24, b"\0")
    head += struct.pack("<HHHHH6xIIIIIIIII", 62, 3, 0xFFFE, 9, 6, 0, num_fat, start, 0, 4096, END, 0, END, 0)
    return head + struct.pack("<109I", *table, *[FREE] * (109 - num_fat)) + b"".join(sectors)


def message(subject, body="", **more):
    texts = {"0037": subject, "0C1A": "Ada", "5D01": "ada@example.org", "0E04": "Odile", "1000": body}
    return {f"__substg1.0_{tag}001F": text.encode("utf-16-le") for tag, text in texts.items()} | more


def attachment(name, content):
    kind = "000D" if isinstance(content, dict) else "0102"
    return {"__substg1.0_3707001F": name.encode("utf-16-le"), f"__substg1.0_3701{kind}": content}


def test_a_message_of_outlook_has_its_headers_text_and_attachments():
    tree = message("Grüße 🚀", "One.\r\nTwo.") | {
        "__attach_version1.0_#00000000": attachment("Fwd", message("Tolls", "Inner text.")),
        "__attach_version1.0_#00000001": attachment("b.csv", b"Load,Age\n4,7\n"),
        "__attach_version1.0_#00000002": attachment("photo.png", b"\x89PNG"),
    }
    row, unread = rows("a.msg", compound_file(tree))
    head = "From: Ada <ada@example.org>\nTo: Odile"
    assert row.title == "Grüße 🚀"
    assert row.text == f"{head}\n\nOne.\nTwo.\n\nSubject: Tolls\n{head}\n\nInner text.\n\nLoad: 4; Age: 7"
    assert [mark.section for mark in row.marks] == ["Tolls", "b.csv, row 2"]
    assert unread == UnreadPart("photo.png", "unknown kind of file (.png)")


def test_a_message_of_outlook_in_html_and_an_older_code_page_is_read_and_a_damaged_one_refused():
    tree = {"__substg1.0_10130102": b"<p>The <b>keel</b></p>", "__substg1.0_0037001E": "Мир".encode("cp1251"),
            "__properties_version1.0": b"\0" * 32 + struct.pack("<HHIQ", 3, 0x3FFD, 0, 1251)}  # fmt: skip
    row = row_of("a.msg", compound_file(tree))
    assert (row.title, row.text) == ("Мир", "The keel")

    for size in (0, 7, 100, 512, 3_000):
        with pytest.raises(UnreadableFile, match="no message of Outlook"):
            rows("a.msg", compound_file(message("x"))[:size])
