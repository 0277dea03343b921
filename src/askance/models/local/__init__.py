"""What all models that run in this process have in common: text, prompts, the choice of tokens."""
