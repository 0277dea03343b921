"""How the reader that ships is made: recipes that are run in a checkout and are no part of the package."""
