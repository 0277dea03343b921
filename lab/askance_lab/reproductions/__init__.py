"""The methods as their authors' code implements them, errors included, so that results can be compared."""
