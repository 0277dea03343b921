"""Office files whose parts are not where most programs put them, and relations that lead nowhere."""

import pytest
from tests.retrieval.test_office_formats import REL, W, docx, package, rows, sections, word

from askance.retrieval.index.formats import UnreadableFile


def relations(**targets):
    """The relations of an Office file or of a part of it, by the last parts of their types."""
    one = '<Relationship Id="{0}" Type="http://schemas.openxmlformats.org/x/relationships/{0}" Target="{1}"/>'
    return f"<R>{''.join(one.format(*each) for each in targets.items())}</R>"


@pytest.mark.parametrize("folder", ["word/", "other/", ""])
def test_the_parts_of_a_word_document_are_where_its_relations_say(tmp_path, folder):
    own = f'<w:styles {W}><w:style w:styleId="A"><w:outlineLvl w:val="0"/></w:style></w:styles>'
    properties = {"officeDocument": f"/{folder}document2.xml", "core-properties": "p/1.psmdcp"}
    members = {
        "_rels/.rels": relations(**properties),
        "p/1.psmdcp": '<c:p xmlns:c="c" xmlns:dc="d"><dc:creator>Ada</dc:creator></c:p>',
        f"{folder}document2.xml": f"<w:document {W}>{word('Payload', 'A')}{word('Heavy.')}</w:document>",
        f"{folder}_rels/document2.xml.rels": relations(styles="a/styles2.xml", footnotes="/f.xml"),
        f"{folder}a/styles2.xml": own,
        "f.xml": f"<w:footnotes {W}>{word('A note.')}</w:footnotes>",
    }
    (row,) = rows(docx(tmp_path / "a.docm", word("An older state."), **members))
    assert (row.text, row.fields) == ("Payload\n\nHeavy.\n\nA note.", {"author": "Ada"})
    assert sections(row) == [(0, "Payload", "Paylo")]


def test_the_main_parts_of_a_presentation_and_a_workbook_are_where_their_relations_say(tmp_path):
    def members(main, element):
        folder, file = main.split("/")
        return {
            "_rels/.rels": relations(officeDocument=main),
            main: f'<x {REL}><{element} r:id="content"/></x>',
            f"{folder}/_rels/{file}.rels": relations(content="s.xml"),
        }

    slide = {"ppt/s.xml": '<s xmlns:a="a"><a:p><a:t>Payload</a:t></a:p></s>'}
    (row,) = rows(package(tmp_path / "a.pptx", members("ppt/show2.xml", "sldId") | slide))
    assert row.text == "Payload"
    sheet = {"xl/s.xml": '<s><row><c t="str"><v>Payload</v></c></row></s>'}
    (row,) = rows(package(tmp_path / "a.xlsx", members("xl/workbook2.xml", "sheet") | sheet))
    assert row.text == "Payload"


@pytest.mark.parametrize("suffix", [".docx", ".pptx", ".xlsx"])
@pytest.mark.parametrize("target", ["word/gone.xml", "../../etc/passwd", "_rels/.rels", "", "x" * 1_000])
def test_a_relation_to_no_main_part_is_refused(tmp_path, suffix, target):
    with pytest.raises(UnreadableFile, match=r"^damaged: it lacks its main part \(.{,100}\)$"):
        rows(package(tmp_path / f"a{suffix}", {"_rels/.rels": relations(officeDocument=target)}))


def test_a_relation_to_another_file_is_no_main_part(tmp_path):
    outside = relations(officeDocument="https://example.org/a.xml").replace("/>", ' TargetMode="External"/>')
    (row,) = rows(docx(tmp_path / "a.docx", word("Payload"), **{"_rels/.rels": outside}))
    assert row.text == "Payload"
    with pytest.raises(UnreadableFile, match=r"it lacks its main part \(word/document\.xml\)"):
        rows(package(tmp_path / "b.docx", {"_rels/.rels": outside}))
