"""Reports of runs: tables, charts, an HTML page, and the results that papers print."""
