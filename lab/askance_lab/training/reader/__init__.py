"""Fine-tune a small model to answer from passages, on questions with known supporting facts."""
