"""The training loop: a schedule of steps, checkpoints, and one loop for whatever is trained."""
