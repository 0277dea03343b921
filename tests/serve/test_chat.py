"""Chat completions: what an answer has, in one piece and as a stream."""

import asyncio

import httpx2
import pytest

from askance.core.trace import EVENT_TYPES
from askance.models.scripted import ScriptedModel, ScriptedPairScorer
from askance.storage.trace_file import parse_trace
from tests.laboratory import usable
from tests.serve.served import (
    ANSWER,
    QUESTION,
    HeldModel,
    annotations_of,
    chunks_of,
    content_of,
    events_of,
    serving,
)


def test_an_answer_has_the_form_of_openai(served):
    answer = served.answered()
    assert answer["object"] == "chat.completion"
    assert answer["id"] == f"chatcmpl-{answer['askance']['trace_id']}"
    assert answer["model"] == "askance/single"
    (choice,) = answer["choices"]
    assert (choice["index"], choice["finish_reason"], choice["message"]["role"]) == (0, "stop", "assistant")
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0
    assert answer["askance"]["searches"] == 1
    assert answer["askance"]["method"] == "single"
    assert answer["askance"]["decisions"]["retrieve:search"] == 1


def test_citations_are_numbers_sources_and_annotations_whose_spans_fit(served):
    message = served.answered()["choices"][0]["message"]
    content, annotations = message["content"], [each["url_citation"] for each in message["annotations"]]
    assert content.startswith("Ingmar Bergman was born in Uppsala in 1918. [1] So the answer is Uppsala. [1]")
    cited = [content[each["start_index"] : each["end_index"]] for each in annotations]
    assert cited == ["Ingmar Bergman was born in Uppsala in 1918.", "So the answer is Uppsala."]
    url = f"{served.url}/v1/passages/ingmar-bergman"
    assert {each["url"] for each in annotations} == {url}
    assert content.endswith(f"\n\nSources:\n[1] Ingmar Bergman: {url}")
    assert served.client.get(url).json()["title"] == "Ingmar Bergman"


def test_a_stream_has_the_committed_text_then_sources_annotations_and_the_end(served):
    response = served.ask(stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    chunks = chunks_of(response.text)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    text, _, sources = content_of(chunks).partition("\n\nSources:\n")
    assert text == ANSWER.strip()
    assert sources.startswith(
        f"[1] Ingmar Bergman: {served.url}/v1/passages/ingmar-bergman “Ingmar Bergman was"
    )
    spans = [each["url_citation"] for each in annotations_of(chunks)]
    cited = [text[each["start_index"] : each["end_index"]] for each in spans]
    assert cited == ["Ingmar Bergman was born in Uppsala in 1918.", "So the answer is Uppsala."]
    last, usage = chunks[-2:]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["askance"]["trace_id"] in last["id"]
    assert (usage["choices"], usage["usage"]["completion_tokens"] > 0) == ([], True)


@pytest.mark.parametrize("method", ["single", "flare", "closed_book", "fixed_sentence"])
def test_a_stream_and_an_answer_in_one_piece_say_the_same(served, method):
    whole = served.answered(model=f"askance/{method}")["choices"][0]["message"]
    chunks = chunks_of(served.ask(model=f"askance/{method}", stream=True).text)
    cut = content_of(chunks).partition("\n\nSources:\n")[0]
    assert cut == whole["content"].partition("\n\nSources:\n")[0].replace(" [1]", "")
    assert len(annotations_of(chunks)) == len(whole["annotations"])


def test_a_stream_with_events_has_the_whole_trace(served):
    events = events_of(served.ask(stream=True, askance={"events": True}).text)
    traced = [data for name, data in events if name == "trace"]
    assert [traced[0]["type"], traced[-1]["type"]] == ["question", "answer"]
    assert {each["type"] for each in traced} <= {kind.type for kind in EVENT_TYPES}
    assert "search" in {each["type"] for each in traced}


def test_text_arrives_before_the_answer_is_complete(sample_index):
    """The model gives its second sentence only once the first has been received."""
    model = HeldModel()

    class Streaming(HeldModel):
        async def generate(self, request):
            if request.on_text:
                request.on_text(" The first")
            await asyncio.shield(asyncio.wrap_future(model.released))
            return await ScriptedModel.generate(self, request)

    with serving(sample_index, Streaming()) as server:
        body = {
            "messages": [{"role": "user", "content": QUESTION}],
            "stream": True,
            "askance": {"events": True},
        }
        with server.client.stream("POST", "/v1/chat/completions", json=body) as response:
            lines = response.iter_lines()
            seen = next(line for line in lines if '"The first' in line or '" The first' in line)
            model.release()
            rest = list(lines)
    assert seen
    assert rest[-2:-1] == ["data: [DONE]"] or "data: [DONE]" in rest


def test_the_trace_of_an_answer_can_be_read_like_a_trace_file(served):
    answer = served.answered()
    response = served.get(f"/v1/traces/{answer['askance']['trace_id']}")
    events = parse_trace(response.text, "the response")
    assert response.headers["content-type"] == "application/jsonl"
    assert events[0].text == QUESTION
    assert events[-1].answer.text == ANSWER.strip()


def test_parameters_of_the_method_come_under_askance(served):
    answer = served.answered(askance={"passages": 1})
    trace = parse_trace(served.get(f"/v1/traces/{answer['askance']['trace_id']}").text, "the response")
    assert "passages=1" in trace[0].method
    assert trace[0].config["parameters"] == {"passages": 1}
    assert [event.k for event in trace if event.type == "search"] == [1]


def test_max_tokens_is_the_parameter_of_the_method(served):
    answer = served.answered(max_tokens=3, askance={"ask_short_answer": False})
    assert answer["choices"][0]["message"]["content"].startswith("Ingmar Bergman was [1]\n")
    assert answer["choices"][0]["finish_reason"] == "length"


def test_the_seed_of_a_request_decides_its_randomness():
    with serving(model=ScriptedModel(), method="closed_book") as server:
        texts = [
            server.answered(model="closed_book", seed=seed)["choices"][0]["message"]["content"]
            for seed in (1, 1)
        ]
    assert texts[0] == texts[1]


def test_a_follow_up_is_rewritten_with_the_earlier_turns(sample_index):
    model = ScriptedModel(lambda prompt, key: "Where was Bergman born?" if "rewrite" in key else ANSWER)
    with serving(sample_index, model) as server:
        first = server.answered("Who directed Fanny and Alexander?")["choices"][0]["message"]["content"]
        answer = server.answered([
            {"role": "system", "content": "Answer in French."},
            {"role": "user", "content": "Who directed Fanny and Alexander?"},
            {"role": "assistant", "content": first},
            {"role": "user", "content": [{"type": "text", "text": "And where was he born?"}]},
        ])  # fmt: skip
        trace = server.get(f"/v1/traces/{answer['askance']['trace_id']}").text
    rewriting = next(prompt for prompt in model.prompts if "And where was he born?" in prompt)
    assert "Who directed Fanny and Alexander?" in rewriting
    assert "Sources:" not in rewriting
    assert "[1]" not in rewriting
    queries = [event.query for event in parse_trace(trace, "the response") if event.type == "search"]
    assert queries == ["Where was Bergman born?"]
    assert "system" in answer["askance"]["ignored"][0]


def test_each_method_is_a_model_with_the_schema_of_its_parameters(served):
    models = {model["id"]: model for model in served.get("/v1/models").json()["data"]}
    assert {"askance/single", "askance/dragin", "askance/closed_book"} <= models.keys()
    schema = models["askance/single"]["askance"]["parameters"]
    assert schema["properties"]["passages"]["type"] == "integer"
    assert [id for id, model in models.items() if model["askance"]["default"]] == ["askance/single"]
    assert served.get("/v1/models/askance/flare").json() == models["askance/flare"]


def test_methods_that_the_server_can_not_run_are_no_models():
    with serving(method="closed_book") as server:
        models = [model["id"] for model in server.get("/v1/models").json()["data"]]
        refused = server.ask(model="askance/single")
    assert models == [f"askance/{name}" for name in usable("closed_book", "closed_book_authors")]
    assert refused.status_code == 400
    assert "no index" in refused.json()["error"]["message"]


def test_without_a_model_the_configured_method_answers_with_its_settings(sample_index):
    with serving(sample_index, parameters={"passages": 2}) as server:
        answer = server.answered(model="")
        trace = server.get(f"/v1/traces/{answer['askance']['trace_id']}").text
        other = server.answered(model="flare")
    assert answer["model"] == "askance/single"
    assert "passages=2" in parse_trace(trace, "the response")[0].method
    assert other["askance"]["method"] == "flare"


def test_a_model_that_fails_is_a_server_error_without_its_details(sample_index):
    model = ScriptedModel([RuntimeError("no route to http://10.0.0.1/secret")] * 2)
    with serving(sample_index, model) as server:
        response = server.ask()
        streamed = server.ask(stream=True)
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["code"]) == (502, "server_error", "model_failed")
    last = events_of(streamed.text)[-1][1]
    assert last["error"]["code"] == "model_failed"
    assert "10.0.0.1" not in response.text + streamed.text


def test_a_budget_that_is_used_up_ends_the_question(sample_index):
    from askance import Budget

    with serving(sample_index, budget=Budget(tokens=10)) as server:
        error = server.ask().json()["error"]
    assert error["code"] == "limit_reached"


def test_many_questions_at_once_have_the_answer_of_one(served):
    async def ask_all():
        async with httpx2.AsyncClient(base_url=served.url, timeout=60, trust_env=False) as client:
            body = {"model": "single", "messages": [{"role": "user", "content": QUESTION}]}
            posts = (client.post("/v1/chat/completions", json=body) for _ in range(20))
            return [
                answer.json()["choices"][0]["message"]["content"] for answer in await asyncio.gather(*posts)
            ]

    assert len(set(asyncio.run(ask_all()))) == 1


def test_an_abstained_answer_ends_with_the_verdict_in_one_piece_and_as_a_stream(sample_index, monkeypatch):
    scorer = ScriptedPairScorer(lambda *pair: -9.0)
    monkeypatch.setattr("askance.configuration.build.load_reranker", lambda spec: scorer)
    with serving(sample_index, abstain_below=0.5) as server:
        answer, streamed = server.answered(), chunks_of(server.ask(stream=True).text)
    message = answer["choices"][0]["message"]
    verdict = "\n\nNot in the documents: no passage supports it: best support "
    assert message["content"].startswith(ANSWER.strip() + verdict)
    assert (message["annotations"], annotations_of(streamed)) == ([], [])
    assert content_of(streamed) == message["content"]
    for about in (answer["askance"], streamed[-1]["askance"]):
        assert about["confidence"] < 0.5
        assert about["abstained"].startswith("no passage supports it")


def test_without_a_threshold_an_answer_has_no_confidence(served):
    about = served.answered()["askance"]
    assert (about["confidence"], about["abstained"]) == (None, "")
