"""One page about runs, all in one file: tables, charts, published numbers; no network, no script."""
