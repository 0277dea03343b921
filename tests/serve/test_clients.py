"""Transcripts of stock clients: the `openai` package, curl and LangChain's ChatOpenAI speak to the server."""

import asyncio
import json
import shutil
import subprocess

import pytest

from tests.serve.served import KEY, QUESTION, HeldModel, serving

ASKED = [{"role": "user", "content": QUESTION}]
TEXT = "Ingmar Bergman was born in Uppsala in 1918."


@pytest.fixture(scope="module")
def guarded(sample_index):
    with serving(sample_index, keys=(KEY,)) as server:
        yield server


@pytest.fixture
def openai():
    return pytest.importorskip("openai", reason="the package openai is not installed")


def test_the_openai_client_asks_in_one_piece(guarded, openai):
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key=KEY) as client:
        answer = client.chat.completions.create(
            model="askance/single", messages=ASKED, extra_body={"askance": {"passages": 2}}
        )
    message = answer.choices[0].message
    assert message.content.startswith(f"{TEXT} [1]")
    assert message.annotations[0].type == "url_citation"
    citation = message.annotations[0].url_citation
    assert message.content[citation.start_index : citation.end_index] == TEXT
    assert citation.title == "Ingmar Bergman"
    assert answer.usage.total_tokens > 0
    assert answer.model_extra["askance"]["searches"] == 1


def test_the_openai_client_streams(guarded, openai):
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key=KEY) as client:
        chunks = list(
            client.chat.completions.create(
                model="askance/single", messages=ASKED, stream=True, stream_options={"include_usage": True}
            )
        )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas).startswith(TEXT)
    annotations = [each for delta in deltas for each in (delta.model_extra or {}).get("annotations", ())]
    assert annotations[0]["url_citation"]["title"] == "Ingmar Bergman"
    assert chunks[-1].usage.completion_tokens > 0


def test_the_async_openai_client_asks_and_streams(guarded, openai):
    async def ask():
        async with openai.AsyncOpenAI(base_url=f"{guarded.url}/v1", api_key=KEY) as client:
            answer = await client.chat.completions.create(model="askance/single", messages=ASKED)
            stream = await client.chat.completions.create(model="askance/single", messages=ASKED, stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            return answer.choices[0].message.content, text

    whole, streamed = asyncio.run(ask())
    assert whole.startswith(TEXT)
    assert streamed.startswith(TEXT)


def test_the_openai_client_lists_models_and_gets_its_own_errors(guarded, openai):
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key=KEY, max_retries=0) as client:
        names = [model.id for model in client.models.list()]
        assert "askance/dragin" in names
        assert client.models.retrieve("askance/dragin").id == "askance/dragin"
        with pytest.raises(openai.NotFoundError, match="unknown model"):
            client.chat.completions.create(model="gpt-4o", messages=ASKED)
        with pytest.raises(openai.BadRequestError, match="did you mean 'passages'"):
            client.chat.completions.create(
                model="askance/single", messages=ASKED, extra_body={"askance": {"pasages": 2}}
            )
    stranger = openai.OpenAI(base_url=f"{guarded.url}/v1", api_key="wrong")
    with stranger, pytest.raises(openai.AuthenticationError):
        stranger.models.list()


def test_the_openai_client_raises_an_error_in_mid_stream(sample_index, openai):
    from askance.models.scripted import ScriptedModel

    with (
        serving(sample_index, ScriptedModel([RuntimeError("no")])) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client,
    ):
        stream = client.chat.completions.create(model="askance/single", messages=ASKED, stream=True)
        with pytest.raises(openai.APIError, match="the model failed"):
            list(stream)


def test_an_openai_client_that_closes_its_stream_frees_the_work(sample_index, openai):
    with serving(sample_index, HeldModel()) as server:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as client:
            stream = client.chat.completions.create(model="askance/single", messages=ASKED, stream=True)
            next(iter(stream))
            assert server.model.started.acquire(timeout=60)
            stream.close()
        assert server.model.cancelled.acquire(timeout=60)


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
