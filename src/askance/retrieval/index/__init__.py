"""The index in a folder: documents become passages, which tantivy and a file of vectors hold."""
