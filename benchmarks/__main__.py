"""Run the speed measurements, print a table, write it as JSON to .bench/, and optionally enter it in a log.

python -m benchmarks [NAME …] [--log FILE]
"""

from benchmarks.engine import against_the_reference, computed_and_needed
from benchmarks.measures import answering, decoding, indexing, starting
from benchmarks.report import report

MEASURES = {
    measure.__name__: measure
    for measure in (starting, indexing, decoding, answering, computed_and_needed, against_the_reference)
}

if __name__ == "__main__":
    report(MEASURES, (__doc__ or "").splitlines()[0])
