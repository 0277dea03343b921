"""A model without weights that answers every prompt with the same words, for tests of what stands around it."""

from askance.models.scripted import Reply, ScriptedModel


def load_quoting(reply: str) -> ScriptedModel:
    """The model that says `reply`."""
    return ScriptedModel(lambda prompt, key: Reply(f" {reply}"))
