"""Pure functions over text: sentences, words, alignment with tokens, short answers, support by passages."""
