"""The HTTP server: an API compatible with OpenAI's, with citations, documents and traces."""
