"""Run the speed measurements, print a table, write it as JSON to .bench/, and optionally enter it in a log.

python -m benchmarks [NAME …] [--log FILE]
"""

from benchmarks.efficiency import decoding
from benchmarks.engine import computed_and_needed
from benchmarks.first_use import demo, indexing
from benchmarks.setup import measure

MEASURES = {each.__name__: each for each in (demo, indexing, decoding, computed_and_needed)}

if __name__ == "__main__":
    measure(MEASURES, __doc__)
