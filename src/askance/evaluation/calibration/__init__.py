"""Calibration: choose the value of a method's parameter by trials on questions."""
