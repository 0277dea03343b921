"""Recipes that make the weights shipped with askance. They are not installed, but run in a checkout."""
