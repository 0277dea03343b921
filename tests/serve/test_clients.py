"""Transcripts of stock clients: the `openai` package, curl and LangChain's ChatOpenAI speak to the server."""

import json
import shutil
import subprocess

import pytest

from askance.models.scripted import ScriptedModel
from tests.serve.served import KEY, QUESTION, serving

ASKED = [{"role": "user", "content": QUESTION}]
TEXT = "Ingmar Bergman was born in Uppsala in 1918."


@pytest.fixture(scope="module")
def guarded(sample_index):
    with serving(sample_index, keys=(KEY,)) as server:
        yield server


@pytest.fixture
def openai():
    return pytest.importorskip("openai", reason="the package openai is not installed")


@pytest.fixture
def client(guarded, openai):
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def test_the_openai_client_asks_in_one_piece_and_streams(client):
    def ask(**fields):
        return client.chat.completions.create(model="askance/single", messages=ASKED, **fields)

    answer = ask(extra_body={"askance": {"passages": 2}})
    message = answer.choices[0].message
    assert message.content.startswith(f"{TEXT} [1]")
    assert message.annotations[0].type == "url_citation"
    citation = message.annotations[0].url_citation
    assert message.content[citation.start_index : citation.end_index] == TEXT
    assert citation.title == "Ingmar Bergman"
    assert answer.usage.total_tokens > 0
    about = answer.model_extra["askance"]
    assert (about["searches"], about["source"]) == (1, "from [1]")

    chunks = list(ask(stream=True, stream_options={"include_usage": True}))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas).startswith(TEXT)
    annotations = [each for delta in deltas for each in (delta.model_extra or {}).get("annotations", ())]
    assert annotations[0]["url_citation"]["title"] == "Ingmar Bergman"
    assert chunks[-1].usage.completion_tokens > 0


def test_the_openai_client_lists_models_and_gets_its_own_errors(guarded, openai, client):
    assert "askance/dragin" in [model.id for model in client.models.list()]
    assert client.models.retrieve("askance/dragin").id == "askance/dragin"
    for model, fields, error, message in (
        ("gpt-4o", {}, openai.NotFoundError, "unknown model"),
        ("askance/single", {"pasages": 2}, openai.BadRequestError, "did you mean 'passages'"),
    ):
        with pytest.raises(error, match=message):
            client.chat.completions.create(model=model, messages=ASKED, extra_body={"askance": fields})
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()


def test_the_openai_client_raises_an_error_in_mid_stream(sample_index, openai):
    with (
        serving(sample_index, ScriptedModel([RuntimeError("no")])) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client,
    ):
        stream = client.chat.completions.create(model="askance/single", messages=ASKED, stream=True)
        with pytest.raises(openai.APIError, match="the model failed"):
            list(stream)


def curl(*words):
    ended = subprocess.run(
        ["curl", "-sS", "--noproxy", "*", *words], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_asks_streams_and_opens_a_citation(guarded):
    key, is_json = ("-H", f"Authorization: Bearer {KEY}"), ("-H", "Content-Type: application/json")
    url = f"{guarded.url}/v1/chat/completions"
    answer = json.loads(curl(*key, *is_json, url, "-d", json.dumps({"messages": ASKED})))
    message = answer["choices"][0]["message"]
    assert message["content"].startswith(TEXT)
    page = curl("-H", "Accept: text/html", message["annotations"][0]["url_citation"]["url"])
    assert "<h1>Ingmar Bergman</h1>" in page
    lines = curl(
        "-N", *key, *is_json, url, "-d", json.dumps({"messages": ASKED, "stream": True})
    ).splitlines()
    assert [line for line in lines if line][-1] == "data: [DONE]"
    assert json.loads(curl(url, *is_json, "-d", "{}"))["error"]["code"] == "invalid_api_key"


def test_langchain_asks_and_streams(guarded):
    chat_models = pytest.importorskip(
        "langchain_openai", reason="the package langchain-openai is not installed"
    )
    model = chat_models.ChatOpenAI(
        base_url=f"{guarded.url}/v1",
        api_key=KEY,
        model="askance/single",
        extra_body={"askance": {"passages": 2}},
    )
    assert model.invoke(QUESTION).content.startswith(TEXT)
    assert "".join(chunk.content for chunk in model.stream(QUESTION)).startswith(TEXT)
