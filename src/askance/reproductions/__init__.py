"""The readings of the authors' code, errors included: methods of their own, to compare with their numbers."""
