"""The methods as their authors' code runs them, errors included, to match runs of that code."""
