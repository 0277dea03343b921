"""The recipe of a Self-RAG model on the bundled base, and the gate that it has to pass."""
