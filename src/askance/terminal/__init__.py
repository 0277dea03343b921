"""Terminal output for people: answers, traces, progress and tables."""
