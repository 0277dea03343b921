"""The training loop: a schedule of steps, checkpoints, and one loop for all models that are trained."""
