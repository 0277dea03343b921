"""Methods as the code of their authors has them, letter by letter; each deviation stands in its docstring."""
