"""Statistics over runs: summaries, paired comparisons and confidence intervals."""
