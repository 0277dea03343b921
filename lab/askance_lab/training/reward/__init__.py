"""Data for reward models and for training on the paths of AirRAG's search."""
