"""Files that survive a crash: atomic writes, append-only records, locks, traces."""
