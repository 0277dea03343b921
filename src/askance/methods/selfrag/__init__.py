"""Self-RAG (Asai et al. 2024): reflection tokens decide when to search and which text to keep."""
