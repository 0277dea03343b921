"""Inference for local models: scheduler, continuous batching, prefix cache."""
