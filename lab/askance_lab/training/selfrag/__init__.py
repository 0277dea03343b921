"""Training of Self-RAG (Asai et al. 2024): a model that writes reflection tokens while it answers."""
