"""The readings of the authors' code, errors included: methods of their own, for runs that are to match theirs."""
