"""Judge models for recorded runs: whether citations support sentences, and which facts are true."""
