"""Teach a model the five actions of AirRAG from gold decompositions."""
