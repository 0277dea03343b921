"""Recipes of the weights that ship with askance. They are not installed, but run in a checkout."""
