"""Chat completions: what an answer has, in one piece and as a stream."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from askance.core.trace import EVENT_TYPES
from askance.models.scripted import ScriptedModel, ScriptedPairScorer
from tests.laboratory import usable
from tests.serve.served import ANSWER, QUESTION, HeldModel, chunks_of, events_of, message_of, serving

TEXTS = ["Ingmar Bergman was born in Uppsala in 1918.", "So the answer is Uppsala."]


def spans(content, annotations):
    return [content[each["url_citation"]["start_index"] : each["url_citation"]["end_index"]]
            for each in annotations]  # fmt: skip


def test_an_answer_has_the_form_of_openai_with_citations_whose_spans_fit(served):
    answer = served.answered()
    about, usage = answer["askance"], answer["usage"]
    assert (answer["object"], answer["model"]) == ("chat.completion", "askance/single")
    assert answer["id"] == f"chatcmpl-{about['trace_id']}"
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0
    assert (about["method"], about["searches"], about["decisions"]["retrieve:search"]) == ("single", 1, 1)
    assert (about["confidence"], about["abstained"], about["source"]) == (None, "", "from [1]")
    (choice,) = answer["choices"]
    assert (choice["index"], choice["finish_reason"], choice["message"]["role"]) == (0, "stop", "assistant")
    content, annotations = choice["message"]["content"], choice["message"]["annotations"]
    url = f"{served.url}/v1/passages/ingmar-bergman"
    cited = "".join(f"{text} [1] " for text in TEXTS).rstrip()
    assert content == f"{cited}\n\nSources:\n[1] Ingmar Bergman: {url}"
    assert spans(content, annotations) == TEXTS
    assert {each["url_citation"]["url"] for each in annotations} == {url}
    assert served.client.get(url).json()["title"] == "Ingmar Bergman"


def test_a_stream_has_the_committed_text_then_sources_annotations_and_the_end(served):
    response = served.ask(stream=True, stream_options={"include_usage": True}, askance={"events": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    chunks = chunks_of(response.text)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    content, annotations = message_of(chunks)
    whole = served.answered()["choices"][0]["message"]
    assert (content, annotations) == (whole["content"], whole["annotations"])
    last, usage = chunks[-2:]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["askance"]["trace_id"] in last["id"]
    assert (usage["choices"], usage["usage"]["completion_tokens"] > 0) == ([], True)
    traced = [data["type"] for name, data in events_of(response.text) if name == "trace"]
    assert [traced[0], traced[-1]] == ["question", "answer"]
    assert {"search"} <= {*traced} <= {kind.type for kind in EVENT_TYPES}


@pytest.mark.parametrize("stream", [False, True])
def test_small_talk_is_searched_for_only_if_it_is_the_first_message(served, stream):
    def about(*messages):
        response = served.ask([{"role": role, "content": text} for role, text in messages], stream=stream)
        return chunks_of(response.text)[-1]["askance"] if stream else response.json()["askance"]

    first, earlier = about(("user", "thanks!")), (("user", QUESTION), ("assistant", ANSWER))
    assert first["searches"] == 1
    later = about(*earlier, ("user", "thanks!"))
    assert (later["searches"], later["source"]) == (0, "from memory, 0.99")
    assert later["decisions"] == {"retrieve:none": 1}
    assert about(*earlier, ("user", "and where was he born?"))["searches"] == 1


METHODS = (
    "single flare dragin closed_book fixed_sentence fixed_length iterdrag draft_agreement selfrag "
    "airrag_lite blender ircot iter_retgen self_ask auto_rag adaptive_rag search_agent".split()
)
LINKS = "![x](http://evil.example) in Uppsala, [1](http://evil.example) 3.5 times.\n\n\n"
REPLIES = [
    ANSWER,
    " Bergman,\n\nas Dr. Ek says, was born in Uppsala [1][2] in 1918[1]. He made [9] films! “He. Was. [1]”"
    f" `a[1]` \n- {LINKS}",
    "Follow up: Where was Ingmar Bergman born?\nIntermediate answer: Uppsala. It is in Sweden.\n"
    "So the final answer is: Uppsala",
]


@pytest.mark.parametrize("num_characters", [1, 5, 1000])
def test_a_stream_and_an_answer_in_one_piece_say_the_same(sample_index, num_characters):
    """The model writes pieces of `num_characters`."""
    for reply in REPLIES:
        model = ScriptedModel(lambda prompt, key, reply=reply: reply)
        model._piece = re.compile(rf"(?s)<\|[a-z_]+\|>|.{{1,{num_characters}}}")
        with serving(sample_index, model) as server:
            for method in METHODS:
                whole = server.answered(model=method)["choices"][0]["message"]
                streamed = message_of(chunks_of(server.ask(model=method, stream=True).text))
                assert streamed == (whole["content"], whole["annotations"])


def test_text_and_its_citation_arrive_before_the_answer_is_complete(sample_index):
    """The model gives the rest of its second sentence only once the number of the first has been received."""

    class Streaming(HeldModel):
        async def generate(self, request):
            if request.on_text:
                request.on_text(ANSWER[:60])
            (generation,) = await super().generate(replace(request, on_text=None))
            if request.on_text:
                request.on_text(generation.text[60:])
            return (generation,)

    body = {"messages": [{"role": "user", "content": QUESTION}], "stream": True, "askance": {"events": True}}
    with (
        serving(sample_index, Streaming()) as server,
        server.client.stream("POST", "/v1/chat/completions", json=body) as response,
    ):
        lines = response.iter_lines()
        assert any("1918. [1] So the" in line for line in lines)
        server.model.release()
        assert "data: [DONE]" in list(lines)


BRIEF = {"askance": {"ask_short_answer": False}}


@pytest.mark.parametrize(
    ("fields", "parameters"),
    [({}, {}), ({"askance": {"passages": 1}}, {"passages": 1}), ({"model": ""}, {}),
     ({"max_tokens": 3, **BRIEF}, {"max_tokens": 3, "ask_short_answer": False}),
     ({"model": "flare", "askance": {"l_max": 999}}, {"l_max": 999})],
)  # fmt: skip
def test_the_trace_of_an_answer_names_the_method_and_the_parameters_of_the_request(
    served, fields, parameters
):
    answer = served.answered(**fields)
    asked, *_, last = served.trace_of(answer)
    assert (asked.text, asked.config["parameters"]) == (QUESTION, parameters)
    assert asked.method.partition("(")[0] == (fields.get("model") or "single")
    assert all(f"{name}={json.dumps(value)}" in asked.method for name, value in parameters.items())
    finish = answer["choices"][0]["finish_reason"]
    assert (last.type, finish) == ("answer", "length" if "max_tokens" in fields else "stop")


def test_the_seed_of_a_request_decides_its_randomness(sample_index):
    with serving(sample_index, ScriptedModel(), method="airrag_lite") as server:
        one, same, other = (
            server.answered(model="", seed=seed, temperature=1.5)["choices"] for seed in (1, 1, 2)
        )
    assert one == same != other


def test_many_questions_at_once_have_the_answer_of_one(served):
    with ThreadPoolExecutor(20) as pool:
        answers = pool.map(lambda _: served.answered()["choices"][0]["message"]["content"], range(20))
    assert len(set(answers)) == 1


def test_a_configured_method_keeps_its_settings_unless_another_is_named(sample_index):
    with serving(sample_index, parameters={"passages": 2}) as server:
        assert "passages=2" in server.trace_of(server.answered(model=""))[0].method
        assert server.answered(model="flare")["askance"]["method"] == "flare"


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
        trace = server.trace_of(answer)
    rewriting = next(prompt for prompt in model.prompts if "And where was he born?" in prompt)
    assert "Who directed Fanny and Alexander?" in rewriting
    assert "Sources:" not in rewriting
    assert "[1]" not in rewriting
    assert [event.query for event in trace if event.type == "search"] == ["Where was Bergman born?"]
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


def test_an_abstained_answer_ends_with_the_verdict_in_one_piece_and_as_a_stream(sample_index, monkeypatch):
    scorer = ScriptedPairScorer(lambda *pair: -9.0)
    monkeypatch.setattr("askance.configuration.build.load_reranker", lambda spec: scorer)
    with serving(sample_index, abstain_below=0.5) as server:
        answer, streamed = server.answered(), chunks_of(server.ask(stream=True).text)
    message = answer["choices"][0]["message"]
    verdict = "\n\nNot in the documents: no passage supports it: best support "
    assert message["content"].startswith(ANSWER.strip() + verdict)
    assert (message["content"], message["annotations"]) == message_of(streamed) == (message["content"], [])
    for about in (answer["askance"], streamed[-1]["askance"]):
        assert about["confidence"] < 0.5
        assert about["abstained"].startswith("no passage supports it")
