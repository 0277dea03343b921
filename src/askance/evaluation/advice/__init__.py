"""Advice on the user's own documents: questions written from them, and methods compared on these."""
