"""The terminal: answers, traces, progress and tables as a person reads them."""
