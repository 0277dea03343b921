"""Each single construct of a document is read as a person sees it."""

import pytest
from tests.retrieval.constructs import constructs, document_of
from tests.retrieval.documents import text_of

TEXT = "The log of the harbour office has been kept since the spring, and it is open to all visitors."
PAGES = f"<p>{TEXT}</p>{{}}", f"{{}}<p>{TEXT}</p>", f"<main>{{}}</main><p>{TEXT}</p>"
"""A construct of a web page is its first block, its last block, or the only one in its main part."""


@pytest.mark.parametrize("each", list(constructs()), ids=lambda each: f"{each.suffix}, {each.name}")
def test_a_construct_is_read(each):
    for page in PAGES if each.suffix == "html" else ["{}"]:
        text = text_of(f"a.{each.suffix}", document_of(each.suffix, page.replace("{}", each.source)))
        assert (text.replace(TEXT, "").strip("\n") if each.suffix == "html" else text) == each.text
