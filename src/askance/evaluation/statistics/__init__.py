"""Statistics over runs: summaries, paired comparisons and bootstrap confidence intervals."""
