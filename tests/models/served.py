"""Shared helpers of the tests of models on servers: prompts, calls and responses."""

import asyncio
from dataclasses import dataclass

from askance.configuration.build import load_model
from askance.core.types import Chat, Cut, GenerateRequest, Raw, Sampling, Span, Turn, Want

RAW = Raw((Span("Where is it?"),))
CHAT = Chat((Turn("system", (Span("Be brief."),)), Turn("user", (Span("Where is it?"),))))
ALL = "completions=1&top_logprobs=20"
KEY = "sk-very-secret"


def model_of(server, options=ALL, attempts=1):
    return load_model(f"openai:tiny@{server.url}?attempts={attempts}&{options}")


def write(model, prompt=RAW, want=Want(), until=None, **options):
    n, key, on_text = options.pop("n", 1), options.pop("key", ("k",)), options.pop("on_text", None)
    sampling = Sampling(**({"max_tokens": 20} | options))
    return asyncio.run(
        model.generate(GenerateRequest(prompt, sampling, want, until, n=n, key=key, on_text=on_text))
    )


def texts(generation):
    return [token.text for token in generation.tokens]


def event(text="", logprobs=None, finish=None):
    return {"choices": [{"index": 0, "text": text, "logprobs": logprobs, "finish_reason": finish}]}


def logprobs_of(*tokens, logprob=-0.5, top=None):
    return {"tokens": list(tokens), "token_logprobs": [logprob] * len(tokens), "top_logprobs": top}


@dataclass(frozen=True, slots=True)
class After:
    tokens: int

    def __call__(self, tokens):
        return Cut(len(tokens), "enough") if len(tokens) >= self.tokens else None
