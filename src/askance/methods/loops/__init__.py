"""Loops of searching and writing, which readers know as IRCoT, Iter-RetGen, Self-Ask and search agents."""
