"""Retrievers by words, by vectors and by both, and rerankers."""
