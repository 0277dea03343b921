"""Draw a recorded trace as an SVG picture of the terminal.

    askance ask "…" --index DIR --trace trace.jsonl
    python -m benchmarks.transcript trace.jsonl --out transcript.svg

The pictures in docs/images are made with this script, from the sample corpus: demo.svg is the trace of
`make demo`, and the others are answers of the plain bundled model.
"""

import argparse
import io
import re
from pathlib import Path

from rich.console import Console

from askance.storage.trace_file import read_trace
from askance.terminal.trace_view import print_trace


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    console = Console(record=True, width=100, file=io.StringIO(), force_terminal=True)
    print_trace(read_trace(options.trace), console)
    # Without this, every viewer would fetch a font from the web.
    drawn = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="askance trace"), flags=re.DOTALL)
    options.out.write_text("\n".join(line.rstrip() for line in drawn.splitlines()), encoding="utf-8")


if __name__ == "__main__":
    main()
