"""Lexical, dense and hybrid retrievers, and rerankers."""
