"""The index folder: documents become passages, stored in tantivy and in a file of vectors."""
