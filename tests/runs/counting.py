"""A model whose calls can be kept and counted."""

from askance.models.scripted import ScriptedModel


class Counting(ScriptedModel):
    """Nonsense that can be kept, and how often it was asked."""

    fingerprint = "nonsense"
    calls = 0

    async def generate(self, request):
        Counting.calls += 1
        return await super().generate(request)

    async def score(self, *given, **named):
        Counting.calls += 1
        return await super().score(*given, **named)
