"""Recipes that make the weights shipped with askance; they are run in a checkout, not installed."""
