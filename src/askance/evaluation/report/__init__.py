"""Reports of runs: tables, charts, an HTML page, and the numbers that papers print."""
