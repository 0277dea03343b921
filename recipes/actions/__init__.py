"""The recipe of a model of AirRAG's actions, and the gates that it has to pass."""
