"""AirRAG (Feng et al. 2025): a tree search over reasoning actions."""
