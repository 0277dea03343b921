"""Evaluation: questions with known answers, runs, metrics, statistics, reports and judges."""
