"""Training and reproductions for askance: what trains weights and what re-runs the authors' code."""
