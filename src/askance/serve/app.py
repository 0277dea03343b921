"""The application: the routes of the API, and what they share."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from functools import cached_property
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.routing import Match

from askance.ask import NoRetriever, check_question
from askance.configuration.methods import defaults_of, parameter_schema
from askance.configuration.server import ServerConfig
from askance.conversation import engine_for
from askance.core.errors import AskanceError, InputError
from askance.core.filters import Filter
from askance.core.ports import Retriever
from askance.core.trace import Noted, Trace
from askance.core.types import Hit, Passage
from askance.core.version import VERSION
from askance.middleware.session import Session, SessionRetriever
from askance.retrieval.filters import filtered_retriever, parse_filter
from askance.serve.chat import ChatQuestion, ClientLeft, StreamResponse, unless_client_leaves
from askance.serve.chat_request import (
    AskanceOptions,
    ChatRequest,
    FilterText,
    read_conversation,
    read_parameters,
)
from askance.serve.citations import passage_url
from askance.serve.documents import ONE, SEVERAL, DocumentRoutes
from askance.serve.engines import PREFIX, Engines
from askance.serve.errors import ApiError, api_error, bad_request, not_found
from askance.serve.limits import (
    PASSAGES,
    QUERIES,
    QUERY_CHARACTERS,
    QUESTION_CHARACTERS,
    Admission,
    Limits,
)
from askance.serve.metrics import Metrics
from askance.serve.responses import ErrorBody, Json, passage_page
from askance.serve.security import OWNER, Guard, Keys
from askance.serve.served_index import ServedIndex
from askance.serve.traces import Traces
from askance.storage.trace_file import trace_text
from askance.viewer.page import viewer_files

OnEnd = Callable[[Trace], None] | None
_NO_INDEX = "this server has no index to search: start it with --index."
_GONE = "its document was replaced or deleted, it belongs to another key, or it never existed"


class SearchRequest(BaseModel):
    """A search for the `k` best passages of the documents that pass the filter `where`."""

    model_config = ConfigDict(extra="forbid")
    query: str = Field(max_length=QUESTION_CHARACTERS)
    k: int = Field(5, ge=1, le=PASSAGES)
    where: FilterText | None = None


class RetrieveRequest(BaseModel):
    """A search for the `topk` best passages of each query, in the form of Search-R1's retrieval server."""

    queries: list[Annotated[str, Field(max_length=QUERY_CHARACTERS)]] = Field(max_length=QUERIES)
    topk: int = Field(3, ge=1, le=PASSAGES)
    return_scores: bool = Field(False, strict=True)


class Application:
    """The state of a server, and its routes.

    Args:
        config: The configuration of the server. The models are loaded here.
        on_end: Receives the complete trace of every question (see `Engine`).

    Raises:
        InputError: A name, parameter, model, index or cache can't be used.
    """

    def __init__(self, config: ServerConfig, keys: Keys, limits: Limits, on_end: OnEnd) -> None:
        if config.index is None and keys.filters:
            raise InputError("a key has a filter, but the server has no index: start it with --index.")
        self.index = None if config.index is None else ServedIndex(config, config.index, keys.filters)
        encoder, opened = (self.index.encoder, self.index.opened) if self.index else (None, None)
        engine = replace(config.open_to_answer(encoder=encoder, retriever=opened), on_end=on_end)
        self.engines = Engines(config, engine)
        self.keys, self.limits, self._is_strict = keys, limits, config.strict_parameters
        self.traces, self.admission = Traces(limits), Admission(limits)
        self.metrics = Metrics(self.admission)
        self._retriever = engine.retriever
        self._viewer = viewer_files()

    async def chat_completions(self, request: Request, body: ChatRequest) -> Response:
        """Answer the question at the end of a conversation, in OpenAI's form."""
        chat = await self._chat_of(request, body)
        held = AsyncExitStack()
        try:
            await unless_client_leaves(request, held.enter_async_context(self.admission.slot()))
            if not body.stream:
                return Json(await unless_client_leaves(request, chat.complete()))
            return StreamResponse(chat.events(), held.pop_all(), self.limits.send_seconds)
        finally:
            await held.aclose()

    async def _chat_of(self, request: Request, body: ChatRequest) -> ChatQuestion:
        """Return the checked question of a request."""
        name = self.engines.method_name(body.model)
        known = sorted(defaults_of(type(self.engines.engine_for(name).method)))
        parameters, unused = read_parameters(body, known, name, is_strict=self._is_strict)
        options = body.askance or AskanceOptions()
        where = None if options.where is None else parse_filter(options.where)
        engine = self.engines.engine_for(name, parameters, body.seed)
        question, ignored = read_conversation(body.messages)
        check_question(question.text)
        owner = request.scope[OWNER]
        return ChatQuestion(
            engine=engine_for(engine, question) if question.history else engine,
            question=question,
            ignored=[*ignored, *unused],
            retriever=await self._retriever_for(owner, where),
            owner=owner,
            model=body.model or f"{PREFIX}{self.engines.default}",
            method=name,
            url_of=self._url_of(request),
            has_events=options.events,
            has_usage=body.stream_options is not None and body.stream_options.include_usage,
            traces=self.traces,
            metrics=self.metrics,
        )

    async def models(self) -> Response:
        """List the methods that the server can run, as models with the JSON Schemas of their parameters."""
        return Json({"object": "list", "data": self._models})

    async def model(self, id: str) -> Response:
        """Return one model."""
        for model in self._models:
            if model["id"] in (id, f"{PREFIX}{id}"):
                return Json(model)
        raise not_found(f"there is no model {id!r}: GET /v1/models lists them.", "model_not_found")

    @cached_property
    def _models(self) -> list[dict[str, Any]]:
        return [
            {
                "id": f"{PREFIX}{name}",
                "object": "model",
                "created": 0,
                "owned_by": "askance",
                "askance": {
                    "default": name == self.engines.default,
                    "searches": str(getattr(method, "searches", "")),
                    "parameters": parameter_schema(type(method)),
                },
            }
            for name, method in self.engines.usable_methods().items()
        ]

    async def search(self, request: Request, body: SearchRequest) -> Response:
        """Search the index."""
        where = None if body.where is None else parse_filter(body.where)
        retriever = await self._retriever_for(request.scope[OWNER], where)
        if retriever is None:
            raise not_found(_NO_INDEX, "no_index")
        url_of = self._url_of(request)
        session = Session(Trace())
        search = SessionRetriever(retriever, session).search(body.query, body.k)
        hits = await unless_client_leaves(request, search)
        notes = [event.text for event in session.trace.events if isinstance(event, Noted)]
        data = [
            {"rank": hit.rank, "score": hit.score, "url": url_of(hit.passage), "passage": hit.passage}
            for hit in hits
        ]
        return Json({"object": "list", "data": data, "notes": notes})

    async def retrieve(self, request: Request, body: RetrieveRequest) -> Response:
        """Search the index for several queries, in the form of Search-R1's retrieval server."""
        retriever = await self._retriever_for(request.scope[OWNER], None)
        if retriever is None:
            raise not_found(_NO_INDEX, "no_index")
        searched = SessionRetriever(retriever, Session(Trace()))

        async def search_each() -> list[list[Any]]:
            found = [await searched.search(query, body.topk) for query in body.queries]
            return [[_document(hit, body.return_scores) for hit in hits] for hits in found]

        return Json({"result": await unless_client_leaves(request, search_each())})

    async def passage(self, request: Request, id: str) -> Response:
        """Show a passage: as a page for browsers, or as JSON."""
        owner = request.scope[OWNER]
        passage = await self.index.passage(id, owner) if self.index else None
        passage = passage or self.traces.passage(id, owner)
        if passage is None:
            raise not_found(f"there is no passage {id!r}: {_GONE}.")
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(passage_page(passage))
        return Json({"object": "passage", **asdict(passage)})

    async def trace(self, request: Request, id: str) -> Response:
        """Return the trace of an answer, in the format of a trace file (JSON Lines)."""
        trace = self.traces.find(id, request.scope[OWNER])
        if trace is None:
            raise not_found(f"there is no trace {id!r}: only the latest {self.limits.traces} are kept.")
        return Response(trace_text(trace), media_type="application/jsonl")

    async def healthz(self) -> Response:
        """Say that the server runs."""
        return Json({"status": "ok"})

    async def readyz(self) -> Response:
        """Say that the server can answer: the models are loaded and the index is open."""
        return Json({"status": "ready", "version": VERSION})

    async def prometheus(self) -> Response:
        """Return the metrics in Prometheus' format."""
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def viewer(self, request: Request) -> Response:
        """Return the viewer's page, or one of its files."""
        path = request.url.path
        if path not in self._viewer:
            raise not_found(f"there is no file {path!r} of the viewer here.")
        content_type, content = self._viewer[path]
        return Response(content, media_type=content_type)

    async def _retriever_for(self, owner: str, where: Filter | None) -> Retriever | None:
        if self.index is not None:
            return await self.index.retriever(owner, where)
        retriever = self._retriever
        return retriever if where is None else filtered_retriever(retriever or NoRetriever(), where)

    def _url_of(self, request: Request) -> Callable[[Passage], str]:
        base, owner = str(request.base_url), request.scope[OWNER]
        return lambda passage: passage_url(base, passage.id, self.keys.signature(owner, passage.id))


def create_app(
    config: ServerConfig,
    keys: Keys = Keys(),
    *,
    hosts: frozenset[str] | None = None,
    limits: Limits = Limits(),
    on_end: OnEnd = None,
) -> Guard:
    """Load the engine and return the server as an ASGI application.

    Args:
        config: The configuration of the server.
        keys: The API keys; without keys, everyone who reaches the server may use it.
        hosts: The host names that requests may name; None accepts any (see `Guard`).
        limits: The limits of the server.
        on_end: Receives the complete trace of every question (see `Engine`).

    Raises:
        InputError: A name, parameter, model, index or cache can't be used.
    """
    application = Application(config, keys, limits, on_end)
    documents = DocumentRoutes(application.index)
    errors: dict[int | str, dict[str, Any]] = {"4XX": {"model": ErrorBody}, "5XX": {"model": ErrorBody}}
    app = FastAPI(
        title="askance",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        default_response_class=Json,
        responses=errors,
        redirect_slashes=False,
    )
    app.post("/v1/chat/completions", responses=_also("text/event-stream"))(application.chat_completions)
    app.get("/v1/models")(application.models)
    app.get("/v1/models/{id:path}")(application.model)
    app.post("/v1/search")(application.search)
    app.post("/retrieve")(application.retrieve)
    app.post("/v1/documents")(documents.put)
    app.get("/v1/documents")(documents.list)
    app.delete("/v1/documents")(documents.delete_where)
    app.delete("/v1/documents/{id:path}")(documents.delete)
    app.get("/v1/passages/{id:path}", responses=_also("text/html"))(application.passage)
    app.get("/v1/traces/{id}", responses=_also("application/jsonl"))(application.trace)
    app.get("/healthz")(application.healthz)
    app.get("/readyz")(application.readyz)
    app.get("/metrics", responses=_also("text/plain"))(application.prometheus)
    app.get("/", include_in_schema=False)(application.viewer)
    app.get("/viewer/{name:path}", include_in_schema=False)(application.viewer)
    for kind in (HTTPException, RequestValidationError, AskanceError, MemoryError, ClientLeft, Exception):
        app.exception_handler(kind)(_error_response)
    return Guard(app, keys, hosts, limits, application.metrics)


def _document(hit: Hit, is_scored: bool) -> dict[str, Any]:
    """Return a hit as Search-R1's clients read it: the first line of the contents is the title."""
    passage, title = hit.passage, " ".join(hit.passage.title.split())
    parts = {"title": passage.title, "text": passage.text, "source": passage.source}
    document = {"id": passage.id, "contents": f'"{title}"\n{passage.text}', **parts}
    return {"document": document, "score": hit.score} if is_scored else document


def _also(content_type: str) -> dict[int | str, dict[str, Any]]:
    """Return the description of a response that may have this content type instead of JSON."""
    return {200: {"content": {content_type: {}}}}


def _invalid(flaw: Mapping[str, Any]) -> ApiError:
    """Return the error for the first flaw that pydantic found in a request."""
    if flaw["type"] == "json_invalid":
        return bad_request(
            f"the body is not valid JSON: {flaw['ctx']['error']} (after {flaw['loc'][-1]:,} characters).",
            "body",
        )
    steps = [str(step)[:50] for step in flaw["loc"][1:] if step not in (ONE, SEVERAL)]
    place, given = ".".join(steps) or "the body", flaw["input"]
    is_shown = flaw["type"] != "missing" and isinstance(given, str | int | float)
    return bad_request(f"{place}{f'={given!r}'[:81] if is_shown else ''}: {flaw['msg']}.", place)


async def _error_response(request: Request, error: Exception) -> Response:
    """Return the response for an exception, in OpenAI's form."""
    match error:
        case ClientLeft():
            return Response(status_code=499)  # nobody reads it
        case RequestValidationError():
            return _invalid(error.errors()[0]).response
        case HTTPException() if not isinstance(error, ApiError):
            message = f"{request.method} {request.url.path[:200]}: {error.detail}."
            headers = {"Allow": _allowed(request)} if error.status_code == 405 else error.headers
            return ApiError(error.status_code, message, headers=headers).response
    return api_error(error).response


def _allowed(request: Request) -> str:
    """Return the methods of a path. Starlette would name only those of its first route."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    return ", ".join(sorted({method for route in routes for method in route.methods}))
