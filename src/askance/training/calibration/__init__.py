"""Calibration: find the threshold that leads to a wanted number of searches."""
