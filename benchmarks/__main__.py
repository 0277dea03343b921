"""Run the speed measurements, print a table, write it as JSON to .bench/, and optionally enter it in a log.

python -m benchmarks [NAME …] [--log FILE]
"""

from benchmarks.engine import against_the_reference, computed_and_needed
from benchmarks.report import parser, show

MEASURES = {measure.__name__: measure for measure in (computed_and_needed, against_the_reference)}

if __name__ == "__main__":
    options = parser(MEASURES, (__doc__ or "").splitlines()[0]).parse_args()
    show({name: MEASURES[name]() for name in options.name or MEASURES}, options.log)
