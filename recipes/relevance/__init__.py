"""The recipe of the bundled cross-encoder, and the gate that it has to pass."""
