"""Types, ports, traces, errors and parameters, on which every other package builds."""
