"""DRAGIN: the RIND trigger, the QFS query, and the attention map that both use."""
