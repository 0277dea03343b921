"""Measuring: questions with known answers, metrics, and comparisons with their uncertainty."""
