"""The methods of active retrieval, each written as its paper's algorithm for one question."""
