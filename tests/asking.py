"""One question, asked of an engine that is made for it."""

from askance.ask import Engine


async def ask(question, method, models, retriever=None, *, trace=None, where=None, **options):
    """Make an engine, and answer one question with it. `options` are the other fields of `Engine`."""
    return await Engine(method, models, retriever, **options).answer(question, trace=trace, where=where)
