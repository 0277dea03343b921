"""Studies: what deciding when to search, iterating and a tree are worth. They run in a checkout."""
