"""A cross-encoder whose scores are known."""


class ScriptedReranker:
    """A reranker that gives every pair the same logit, and records its queries; or fails."""

    name = fingerprint = "scripted"

    def __init__(self, logit=0.0):
        self.logit, self.queries = logit, []

    async def score(self, query, passages):
        self.queries.append(query)
        if isinstance(self.logit, Exception):
            raise self.logit
        return [self.logit] * len(passages)
