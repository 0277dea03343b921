"""Ask a server through stock clients with their default settings, in one piece and as a stream.

    python -m benchmarks.clients                      # starts `askance serve` over the sample corpus
    python -m benchmarks.clients --url http://127.0.0.1:8080 --mcp "askance mcp --index sample-index"

Each client asks the same question twice. A proxy between client and server records what the client sends and
what of it has no effect. Clients that are not installed are named and left out. The table of clients in
docs/serve.md is what this script prints, and `--transcripts FILE` writes what went over the wire. It exits
with 1 if a client fails or receives another text as a stream.
"""

import argparse
import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

QUESTION = "Where was Ingmar Bergman born?"
MODEL = "askance/dragin"
MESSAGES = [{"role": "user", "content": QUESTION}]
Texts = tuple[str, str]
"""The text of an answer in one piece, and that of a stream."""


def curl(url: str) -> Texts:
    def post(**fields: object) -> str:
        body = json.dumps({"model": MODEL, "messages": MESSAGES, **fields})
        command = [
            "curl",
            "-sSN",
            f"{url}/chat/completions",
            "-H",
            "Content-Type: application/json",
            "-d",
            body,
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    lines = re.findall(r"^data: (\{.*)$", post(stream=True), re.MULTILINE)
    deltas = [choice["delta"] for line in lines for choice in json.loads(line)["choices"]]
    whole = json.loads(post())["choices"][0]["message"]["content"]
    return whole, "".join(delta.get("content", "") for delta in deltas)


def openai(url: str) -> Texts:
    from openai import OpenAI

    create = OpenAI(base_url=url, api_key="none").chat.completions.create
    stream = create(model=MODEL, messages=MESSAGES, stream=True)
    deltas = [choice.delta.content or "" for chunk in stream for choice in chunk.choices]
    return create(model=MODEL, messages=MESSAGES).choices[0].message.content, "".join(deltas)


def langchain_openai(url: str) -> Texts:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(base_url=url, api_key="none", model=MODEL)
    asked = [("system", "You are a helpful assistant."), ("human", QUESTION)]
    return model.invoke(asked).content, "".join(chunk.content for chunk in model.stream(asked))


def litellm(url: str) -> Texts:
    from litellm import completion

    options = {"model": f"openai/{MODEL}", "messages": MESSAGES, "api_base": url, "api_key": "none"}
    deltas = [chunk.choices[0].delta.content or "" for chunk in completion(**options, stream=True)]
    return completion(**options).choices[0].message.content, "".join(deltas)


def llama_index(url: str) -> Texts:
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike

    model = OpenAILike(model=MODEL, api_base=url, api_key="none", is_chat_model=True)
    asked = [
        ChatMessage(role="system", content="You are helpful."),
        ChatMessage(role="user", content=QUESTION),
    ]
    streamed = "".join(chunk.delta or "" for chunk in model.stream_chat(asked))
    return model.chat(asked).message.content or "", streamed


def haystack(url: str) -> Texts:
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.utils import Secret

    asked, pieces = [ChatMessage.from_user(QUESTION)], list[str]()
    model = OpenAIChatGenerator(api_key=Secret.from_token("none"), model=MODEL, api_base_url=url)
    model.run(asked, streaming_callback=lambda chunk: pieces.append(chunk.content or ""))
    return model.run(asked)["replies"][0].text, "".join(pieces)


def dspy(url: str) -> Texts:
    import dspy

    model = dspy.LM(f"openai/{MODEL}", api_base=url, api_key="none", cache=False)
    (whole,) = model(QUESTION)
    return whole, whole  # it streams only programs with signatures, whose prompts are instructions


CLIENTS = {
    "curl": curl, "openai": openai, "langchain-openai": langchain_openai, "litellm": litellm,
    "llama-index-llms-openai-like": llama_index, "haystack-ai": haystack, "dspy": dspy,
}  # fmt: skip


def mcp(command: str) -> str:
    """Return the answer of the tool `ask` of an MCP server."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def ask() -> str:
        program, *arguments = shlex.split(command)
        started = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
        async with stdio_client(started) as (reads, writes), ClientSession(reads, writes) as session:
            await session.initialize()
            result = await session.call_tool("ask", {"question": QUESTION})
            return str((result.structured_content or {}).get("answer"))

    return asyncio.run(ask())


class Proxy(BaseHTTPRequestHandler):
    """A proxy before the server, which keeps what clients sent and received, and what had no effect."""

    server_url = ""
    transcript = ""
    sent: ClassVar[list[str]] = []
    ignored: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Proxy.sent += json.loads(body)
        Proxy.transcript += f"\n> POST {self.path} ({self.headers['User-Agent']})\n> {body.decode()}\n"
        request = urllib.request.Request(f"{Proxy.server_url}{self.path}", body, dict(self.headers))
        try:
            response = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            response = error
        self.send_response(response.status)
        self.send_header("Content-Type", response.headers["Content-Type"])
        self.send_header("Connection", "close")
        self.end_headers()
        for line in response:
            self.wfile.write(line)
            Proxy.transcript += f"< {line.decode().rstrip()}\n" if line.strip() else ""
            record = line.removeprefix(b"data: ")
            about = json.loads(record).get("askance", {}) if record.startswith(b"{") else {}
            Proxy.ignored += about.get("ignored", [])

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def own_server() -> Iterator[tuple[str, str]]:
    """Yield the address of a server over the sample corpus, and the command of its MCP server."""
    askance = [sys.executable, "-m", "askance"]
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        subprocess.run(
            [*askance, "index", "@sample", "--out", index, "--encoder", "none"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        command = [*askance, "serve", "--index", str(index), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                yield (
                    server.stdout.readline().split()[-1],
                    shlex.join([*askance, "mcp", "--index", str(index)]),
                )
            finally:
                server.terminate()


def ask_all(url: str, mcp_command: str) -> bool:
    """Print a line for each client, and return whether all that are installed work."""
    Proxy.server_url, are_right = url, True
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    print("| client | works | sends besides model and messages | without an effect |\n|---|---|---|---|")
    for name, ask in CLIENTS.items():
        Proxy.sent, Proxy.ignored = [], []
        Proxy.transcript += f"\n# {name}\n"
        try:
            whole, streamed = ask(f"http://127.0.0.1:{proxy.server_port}/v1")
            outcome = "yes" if whole == streamed and "[1]" in whole else f"no: {whole!r} is not {streamed!r}"
        except (ImportError, FileNotFoundError) as error:
            print(f"{name} is not installed ({error})", file=sys.stderr)
            continue
        except Exception as error:  # any failure of a client is one of the results
            outcome = f"no: {type(error).__name__}: {error}"
        are_right &= outcome == "yes"
        sent = ", ".join(
            f"`{field}`" for field in dict.fromkeys(Proxy.sent) if field not in ("model", "messages")
        )
        ignored = "; ".join(dict.fromkeys(why.partition(":")[0] for why in Proxy.ignored))
        print(f"| {name} | {outcome} | {sent or 'nothing'} | {ignored or 'nothing'} |", flush=True)
    proxy.shutdown()
    try:
        answer = mcp(mcp_command)
        are_right &= "[1]" in answer
        print(f"| mcp | {'yes' if '[1]' in answer else f'no: {answer}'} | (the tool `ask`) | nothing |")
    except ImportError as error:
        print(f"mcp is not installed ({error})", file=sys.stderr)
    return are_right


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", help="the address of a server, without /v1; by default, one is started")
    parser.add_argument("--mcp", default="", help="the command of an MCP server, if --url is given")
    parser.add_argument("--transcripts", type=Path, metavar="FILE", help="write all requests and responses")
    options = parser.parse_args()
    os.environ["NO_PROXY"] = "127.0.0.1"
    with nullcontext((options.url, options.mcp)) if options.url else own_server() as (url, command):
        are_right = ask_all(url, command)
    if options.transcripts:
        options.transcripts.write_text(Proxy.transcript, encoding="utf-8")
    raise SystemExit(not are_right)


if __name__ == "__main__":
    main()
