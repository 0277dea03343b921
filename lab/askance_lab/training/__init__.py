"""Training: thresholds by calibration, and readers by fine-tuning."""
