"""One file per method; each reads like the paper's algorithm for ONE question."""
