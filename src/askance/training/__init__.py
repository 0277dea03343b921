"""Learning from data: thresholds for a model."""
