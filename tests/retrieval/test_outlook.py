"""Messages of Outlook, written here as compound files (MS-CFB, MS-OXMSG)."""

import struct

import pytest

from askance.retrieval.index import formats
from askance.retrieval.index.formats import UnreadableFile, UnreadPart

END, FREE, FAT, NONE = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF


def compound_file(tree):
    """Write nested folders and files. Each file is padded, so that it lies in sectors of its own."""
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
            before = NONE
            for key in reversed(list(content)):
                inner = add(key, content[key])
                entries[inner][2] = before  # the siblings are a chain
                before = child = inner
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


def rows(path, content):
    path.write_bytes(content)
    return list(formats.read_file(path))


def test_a_message_has_its_headers_text_and_attachments(tmp_path):
    inner = message("Tolls", "Inner text.")
    tree = message("Grüße 🚀", "One.\r\nTwo.") | {
        "__attach_version1.0_#00000000": attachment("Fwd", inner),
        "__attach_version1.0_#00000001": attachment("b.csv", b"Load,Age\n4,7\n"),
        "__attach_version1.0_#00000002": attachment("photo.png", b"\x89PNG"),
    }
    row, unread = rows(tmp_path / "a.msg", compound_file(tree))
    head = "From: Ada <ada@example.org>\nTo: Odile"
    assert row.title == "Grüße 🚀"
    assert row.text == f"{head}\n\nOne.\nTwo.\n\nSubject: Tolls\n{head}\n\nInner text.\n\nLoad: 4; Age: 7"
    assert [mark.section for mark in row.marks] == ["Tolls", "b.csv, row 2"]
    assert unread == UnreadPart("photo.png", "unknown kind of file (.png)")


def test_a_message_in_html_or_in_an_older_code_page_is_read(tmp_path):
    tree = {"__substg1.0_10130102": b"<p>The <b>keel</b></p>", "__substg1.0_0037001E": "Мир".encode("cp1251"),
            "__properties_version1.0": b"\0" * 32 + struct.pack("<HHIQ", 3, 0x3FFD, 0, 1251)}  # fmt: skip
    (row,) = rows(tmp_path / "a.msg", compound_file(tree))
    assert (row.title, row.text) == ("Мир", "The keel")


@pytest.mark.parametrize("size", [0, 7, 100, 512, 3_000])
def test_a_damaged_message_is_refused(tmp_path, size):
    with pytest.raises(UnreadableFile, match="no message of Outlook"):
        rows(tmp_path / "a.msg", compound_file(message("x"))[:size])
