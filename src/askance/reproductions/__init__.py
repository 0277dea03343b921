"""The readings of the authors' code, errors included: methods of their own, to match runs of that code."""
