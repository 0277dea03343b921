"""Code that several methods share: prompts, generation state, searches, citations, token limits."""
