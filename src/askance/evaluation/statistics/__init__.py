"""Statistics over runs: summaries, paired comparisons and bootstrap intervals."""
