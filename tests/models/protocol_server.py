"""Imitations of servers, each from a file in `protocols/`, with a model that counts.

A file has the responses of such a server to GET requests (`responses`), to a parameter that it refuses
(`refuses`) and to an unknown model, and the shape of its events.
"""

import json
from pathlib import Path

from tests.models.scripted_server import Fault, ScriptedServer

FOLDER = Path(__file__).parent / "protocols"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
).split()
TOKENS = tuple(piece for word in WORDS for piece in (f" {word}", ","))
HOT = (" blue", " seven", " tree")
TEMPLATE_TOKENS = 9


def protocol(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def serve(name):
    server = ScriptedServer(key=protocol(name).get("key", ""))
    server.answers = answers(name)
    return server


def answers(name, **changes):
    rules = {**protocol(name), **changes}
    return lambda request: _answer(rules, request)


def _answer(rules, request):
    if request.method == "GET":
        if request.path in rules["responses"]:
            return Fault(body=rules["responses"][request.path])
        return _filled(rules["absent"], PATH=request.path)
    body = request.body
    if rules.get("counts") and request.path in ("/tokenize", "/apply-template"):
        return _count(request)
    kind = {"/v1/chat/completions": "chat", "/v1/completions": "completions"}.get(request.path)
    if kind is None or rules[kind] is None:
        return _filled(rules["absent"], PATH=request.path)
    names = {model["id"].removesuffix(":latest") for model in rules["responses"]["/v1/models"]["data"]}
    if "unknown_model" in rules and body["model"].removesuffix(":latest") not in names:
        return _filled(rules["unknown_model"], MODEL=body["model"])
    sent = {**body, **body.get("stream_options", {})}
    for refusal in rules["refuses"]:
        if refusal["parameter"] in sent and _is_beyond(sent[refusal["parameter"]], refusal):
            return Fault(refusal["status"], body=refusal["body"])
    if not body.get("stream"):
        return Fault(body=_in_one_piece(rules[kind], body))
    return Fault(events=list(_events(rules[kind], body)))


def _is_beyond(value, refusal):
    if "above" in refusal:
        return not isinstance(value, bool) and value > refusal["above"]
    return "equals" not in refusal or (value == refusal["equals"] and value is not False)


def _filled(shape, **values):
    text = json.dumps(shape["body"])
    for name, value in values.items():
        text = text.replace(name, value)
    return Fault(shape["status"], body=json.loads(text))


def _text_of(body):
    return body["prompt"] if "prompt" in body else "".join(message["content"] for message in body["messages"])


def _num_prompt_tokens(text, templated):
    return 2 * len(text.split()) + (TEMPLATE_TOKENS if templated else -1)


def _count(request):
    if request.path == "/apply-template":
        return Fault(body={"prompt": f"<user>{_text_of(request.body)}"})
    if "content" in request.body:
        text = request.body["content"].removeprefix("<user>")
        return Fault(body={"tokens": [1] * _num_prompt_tokens(text, "<user>" in request.body["content"])})
    return Fault(body={"count": _num_prompt_tokens(_text_of(request.body), "messages" in request.body)})


def _written(kind, body):
    if "prompt" in body:
        if kind["is_raw"]:
            return (kind.get("first", "ur"), ",", " five", ",", " six", ",")
        return TOKENS
    if body.get("temperature", 1) > 0 and not (kind["top_k"] and body.get("top_k") == 1):
        return HOT
    last = body["messages"][-1]
    can_continue = (
        body.get("continue_final_message", False)
        if kind["continues"] == "final_message"
        else kind["continues"]
    )
    if last["role"] != "assistant" or not can_continue:
        return TOKENS
    whole = "".join(TOKENS)
    rest = whole.removeprefix(last["content"])
    return next(TOKENS[index:] for index in range(len(TOKENS)) if "".join(TOKENS[index:]) == rest)


def _logprobs(style, token, body):
    is_chat = "messages" in body
    num_top = body.get("top_logprobs", 0) if is_chat else body.get("logprobs", 0)
    if style is None or body.get("logprobs") in (None, False):
        return None
    others = [(f" other{number}", -2.0 - number / 10) for number in range(num_top - 1)]
    top = [(token, -0.5), *others][:num_top]
    if style == "tokens":
        return {"tokens": [token], "token_logprobs": [-0.5], "top_logprobs": [dict(top)], "text_offset": [0]}
    entries = [{"token": text, "logprob": logprob, "bytes": list(text.encode())} for text, logprob in top]
    own = {"token": token, "logprob": -0.5, "bytes": list(token.encode())}
    return {"content": [{**own, "top_logprobs": entries}]}


def _event(kind, body, text, finish=None):
    event = json.loads(json.dumps(kind["event"]))
    event["model"], choice = body["model"], event["choices"][0]
    if "delta" in choice:
        choice["delta"]["content"] = text
    else:
        choice["text"] = text
    if "logprobs" in choice:
        choice["logprobs"] = _logprobs(kind["logprobs"], text, body) if text else None
    choice["finish_reason"] = finish
    return event


def _in_one_piece(kind, body):
    text = "".join(_written(kind, body)[: body["max_tokens"]])
    usage = {"prompt_tokens": _num_prompt_tokens(_text_of(body), not kind["is_raw"])}
    return {**_event(kind, body, text, "length"), "usage": usage}


def _events(kind, body):
    most = body.get("max_completion_tokens") or body["max_tokens"]
    tokens = _written(kind, body)
    templated = "messages" in body or not kind["is_raw"]
    usage = {
        "prompt_tokens": _num_prompt_tokens(_text_of(body), templated),
        "completion_tokens": len(tokens[:most]),
    }
    options = body.get("stream_options", {})
    running = {"usage": usage} if kind.get("running") and options.get("continuous_usage_stats") else {}
    for token in tokens[:most]:
        yield {**_event(kind, body, token), **running}
    yield _event(kind, body, "", "length" if len(tokens) > most else "stop")
    if kind["usage"] and options.get("include_usage"):
        yield {"choices": [], "usage": usage}
