"""A study of questions of one to four hops in a made world: what search, iteration and a tree are worth."""
