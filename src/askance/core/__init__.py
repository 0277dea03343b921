"""Types, ports, traces, errors and parameters: what every other package builds on."""
