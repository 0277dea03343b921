"""Time the indexing of 500 PDF files of 4 pages.

    python -m benchmarks.documents

The files are written first: text of made-up words drawn by Zipf's law, 42 lines of 11 words to a page.
"""

import argparse
import random
import resource
import tempfile
import time
from pathlib import Path

from askance.retrieval.index.build import build_index

FILES, PAGES, LINES, WORDS = 500, 4, 42, 11


def main() -> None:
    """Write the files, build an index of them, and print the time and the memory."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        docs = Path(folder, "docs")
        docs.mkdir()
        _write_files(docs)
        began = time.perf_counter()
        report = build_index([docs], Path(folder, "index"))
        seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    what = f"{FILES} PDF files of {PAGES} pages"
    print(f"{what}: {report.passages:,} passages in {seconds:.1f} s, {peak:.0f} MB")


def _write_files(folder: Path) -> None:
    rng = random.Random(7)
    vocabulary = ["".join(rng.choices("aeiounrstlmdk", k=rng.randint(2, 9))) for _ in range(8_000)]
    weights = [1 / (rank + 10) for rank in range(len(vocabulary))]
    for number in range(FILES):
        pages = [
            [" ".join(rng.choices(vocabulary, weights, k=WORDS)) for _ in range(LINES)] for _ in range(PAGES)
        ]
        (folder / f"{number:04}.pdf").write_bytes(_pdf(pages))


def _pdf(pages: list[list[str]]) -> bytes:
    """Return a PDF file with the given lines on each page."""
    kids = " ".join(f"{number} 0 R" for number in range(4, 4 + 2 * len(pages), 2))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman >>",
    ]
    for lines in pages:
        stream = "BT /F1 11 Tf 50 780 Td " + " ".join(f"({line}) Tj 0 -17 Td" for line in lines) + " ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {len(objects) + 2} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    content, offsets = "%PDF-1.4\n", list[int]()
    for number, each in enumerate(objects, start=1):
        offsets.append(len(content))
        content += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    content += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n"
    content += f"<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{content.index('xref')}\n%%EOF\n"
    return content.encode()


if __name__ == "__main__":
    main()
