"""The routes for documents: add, replace, list and delete them while the server runs."""

from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
)
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from askance.core.filters import FieldValue
from askance.core.records import is_finite
from askance.core.safe_text import whole_characters
from askance.retrieval.filters import parse_filter
from askance.retrieval.index.documents import Document
from askance.retrieval.index.formats.fields import MAX_FIELD_CHARACTERS, MAX_FIELDS
from askance.retrieval.index.formats.tables import MAX_ID_CHARACTERS
from askance.serve.chat_request import FilterText
from askance.serve.errors import bad_request, not_found
from askance.serve.responses import Json
from askance.serve.security import OWNER
from askance.serve.served_index import ServedIndex

_MAX_TITLE_CHARACTERS = 1_000
_MAX_AT_ONCE = 1_000


def _field_value(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        raise PydanticCustomError("field_value", "use a text, a number, true or false")
    return value


_Value = Annotated[StrictBool | StrictInt | StrictFloat | StrictStr, BeforeValidator(_field_value)]


class GivenDocument(BaseModel):
    """A document to add, or to put in the place of the document with the same id."""

    model_config = ConfigDict(extra="forbid")
    id: str = Field(min_length=1, max_length=MAX_ID_CHARACTERS)
    title: str = Field("", max_length=_MAX_TITLE_CHARACTERS)
    text: str = Field(json_schema_extra={"pattern": r"\S"})
    fields: dict[str, _Value] = Field({}, max_length=MAX_FIELDS)


class GivenDocuments(BaseModel):
    """Documents to add or replace in one step."""

    model_config = ConfigDict(extra="forbid")
    documents: list[GivenDocument] = Field(min_length=1, max_length=_MAX_AT_ONCE)


ONE, SEVERAL = "one document", "several documents"
"""The two forms of a body with documents, which stand in the places of validation errors."""

Given = Annotated[
    Annotated[GivenDocument, Tag(ONE)] | Annotated[GivenDocuments, Tag(SEVERAL)],
    Discriminator(lambda body: SEVERAL if isinstance(body, dict) and "documents" in body else ONE),
]


class DocumentRoutes:
    """The routes for the documents of an index, or of a server without an index."""

    def __init__(self, index: ServedIndex | None) -> None:
        self._index = index

    async def put(self, request: Request, body: Given) -> Response:
        """Add or replace documents. They can be searched as soon as the response arrives."""
        given = body.documents if isinstance(body, GivenDocuments) else [body]
        ids = [document.id for document in given]
        for document in given:
            _check(document)
            if ids.count(document.id) > 1:
                raise bad_request(f"id={document.id!r}: it is given more than once.", "id")
        documents = [
            Document(each.id, each.title or each.id, each.text, fields=each.fields) for each in given
        ]
        outcomes = await self._opened().put(request.scope[OWNER], documents)
        data = [{"object": "document", "id": id, "outcome": outcome} for id, outcome in outcomes]
        return Json({"object": "list", "data": data})

    async def list(
        self, request: Request, after: str = "", limit: Annotated[int, Query(ge=1, le=_MAX_AT_ONCE)] = 100
    ) -> Response:
        """List documents by id: those of the key, which can be replaced and deleted, and those from files."""
        page = await self._opened().documents(request.scope[OWNER], after, limit + 1)
        data = [
            {"object": "document", "id": entry.id, "passages": entry.passages, "is_own": is_own}
            for entry, is_own in page[:limit]
        ]
        return Json({"object": "list", "data": data, "has_more": len(page) > limit})

    async def delete(self, request: Request, id: str) -> Response:
        """Delete a document of the key."""
        if not await self._opened().remove(request.scope[OWNER], id=id):
            raise not_found(f"there is no document {id!r} that this key added: GET /v1/documents lists them.")
        return Json({"object": "document.deleted", "id": id, "deleted": True})

    async def delete_where(self, request: Request, where: FilterText) -> Response:
        """Delete the documents of the key that pass a filter."""
        ids = await self._opened().remove(request.scope[OWNER], where=parse_filter(where))
        data = [{"object": "document.deleted", "id": id, "deleted": True} for id in ids]
        return Json({"object": "list", "data": data})

    def _opened(self) -> ServedIndex:
        if self._index is None:
            raise not_found("this server has no index for documents: start it with --index.", "no_index")
        return self._index


def _check(document: GivenDocument) -> None:
    """Raise an error with status 400 for an id that no URL can have, and for a document without text."""
    if document.id.strip() in ("", ".", "..") or not document.id.isprintable():
        raise bad_request(
            f"id={document.id!r}: use printable characters, and more than dots and spaces.", "id"
        )
    for name in ("id", "title", "text"):
        if (value := getattr(document, name)) != whole_characters(value):
            raise bad_request(f"{name} of the document {document.id!r}: it is not valid Unicode.", name)
    for name, field in document.fields.items():
        _check_field(name, field, f"fields of the document {document.id!r}")
    if not document.text.strip():
        raise bad_request(f"text of the document {document.id!r}: it is empty.", "text")


def _check_field(name: str, value: FieldValue, place: str) -> None:
    """Raise an error with status 400 for a field that no filter can name or compare."""
    texts = [name, *([value] if isinstance(value, str) else [])]
    if any(text != whole_characters(text) for text in texts):
        raise bad_request(f"{place}: {name!r} is not valid Unicode.", "fields")
    if not name.strip() or "`" in name or max(map(len, texts)) > MAX_FIELD_CHARACTERS:
        longest = f"at most {MAX_FIELD_CHARACTERS:,} characters"
        raise bad_request(
            f"{place}: the name {name[:50]!r} is blank or has a backquote, or it or its value has more than "
            f"{longest}.",
            "fields",
        )
    if isinstance(value, int | float) and not is_finite(value):
        raise bad_request(f"{place}: the value of {name!r} is no finite number.", "fields")
