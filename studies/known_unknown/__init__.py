"""The study of the known and the unknown: what deciding when to search is worth, in a made world."""
