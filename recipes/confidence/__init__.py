"""The recipe of the calibration of answers' confidence, and what the confidence is worth."""
