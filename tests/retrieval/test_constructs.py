"""Each single construct of a document is read as a person sees it."""

import pytest
from tests.retrieval.constructs import constructs, document_of

from askance.retrieval.index.formats import DocumentRow, read_file


@pytest.mark.parametrize(
    ("suffix", "construct"), [pytest.param(*each, id=f"{each[0]}, {each[1][0]}") for each in constructs()]
)
def test_a_construct_is_read(suffix, construct, tmp_path):
    _, inside, found, left_out = construct
    path = tmp_path / f"one.{suffix}"
    path.write_bytes(document_of(suffix, inside))
    text = "\n\n".join(row.text for row in read_file(path) if isinstance(row, DocumentRow))
    at = 0
    for piece in found:
        assert piece in text[at:]
        at = text.index(piece, at) + len(piece)
    for piece in left_out:
        assert piece not in text
