"""What several methods share: prompts, the state of a growing answer, searches, token limits."""
