"""The index folder: its layout, its manifest and its generations.

    manifest.json            names the one valid generation; replaced in one step
    generation-000002/       that generation, never changed once the manifest names it:
        lexical/                 the passages, in tantivy
        vectors/                 the vectors of the passages, if there are any (see `vectors`)
        base.sqlite, documents.sqlite
                                 the documents, for the next build (see `document_files`)
    writer.lock              held while a build runs

A build writes its own generation (see `writer`). A reader sees either the whole old generation or
the whole new one, even after a crash.
"""

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from askance.core.errors import BadIndex
from askance.core.filters import FieldKinds
from askance.core.ports import Encoder
from askance.retrieval.bm25_analysis import Analysis
from askance.retrieval.index.passages import Chunking
from askance.storage.durable_files import write_atomically

FORMAT = "askance-index"
SCHEMA_VERSION = 4
MANIFEST, INCOMING_MANIFEST = "manifest.json", ".manifest.json.new"
LOCK = "writer.lock"
LEXICAL, VECTORS, DOCUMENTS, BASE = "lexical", "vectors", "documents.sqlite", "base.sqlite"
_GENERATION = re.compile(r"generation-\d{6,}")


@dataclass(frozen=True, slots=True)
class EncoderRecord:
    """The encoder that made the vectors of an index.

    Attributes:
        name: The specification from which the encoder was loaded, if there was one.
        fingerprint: A string that distinguishes the encoder's vectors from those of other encoders.
    """

    name: str
    fingerprint: str
    dimensions: int

    def __str__(self) -> str:
        return f"the encoder {self.name} ({self.dimensions} dimensions, fingerprint {self.fingerprint})"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of `manifest.json`, except the format and the schema version.

    Attributes:
        generation: The number of builds so far that changed the index. The generation folder is named after
            this number.
        content_hash: A hash of all documents with their ids, independent of their files and order.
        engine: The library that wrote the index, with its version.
        created_at, updated_at: The times of the first build and of the latest change, in UTC (ISO 8601).
        encoder: The encoder that made the vectors; None if the index has no vectors.
        scripts: The number of passages with letters of each script, by the script's name.
        fields: The fields of the documents with the types of their values.
    """

    generation: int
    analysis: Analysis
    documents: int
    passages: int
    content_hash: str
    engine: str
    created_at: str
    updated_at: str
    encoder: EncoderRecord | None = None
    chunking: Chunking = Chunking()
    scripts: Mapping[str, int] = field(default_factory=dict)
    fields: FieldKinds = field(default_factory=dict)


@cache
def manifest_type() -> TypeAdapter[Manifest]:
    """Return what reads manifests. To make it takes longer than an update of the index."""
    return TypeAdapter(Manifest)


def generation_folder(folder: Path, generation: int) -> Path:
    """Return the folder of a generation of the index in `folder`."""
    return folder / f"generation-{generation:06d}"


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of the index in `folder`.

    Raises:
        BadIndex: There is no such folder, it holds no index, or the index is newer than this version.
    """
    try:
        if not folder.is_dir():
            problem = "is a file" if folder.exists() else "does not exist"
            raise BadIndex(f"the index {folder} {problem}: name the folder that `askance index` wrote.")
        content = from_json((folder / MANIFEST).read_bytes())
        format, version = content.pop("format"), int(content.pop("schema_version"))
        if format != FORMAT:
            raise BadIndex(f"{folder} holds no askance index, but one of format {format!r}.")
        if version != SCHEMA_VERSION:
            which, upgrade = (
                ("a later", "upgrade askance, or ") if version > SCHEMA_VERSION else ("an earlier", "")
            )
            raise BadIndex(
                f"the index {folder} was built by {which} version of askance (schema version {version}; "
                f"this version reads {SCHEMA_VERSION}): {upgrade}delete the folder and build the index again "
                f"with `askance index DOCS --out {folder}`."
            )
        return manifest_type().validate_python(content)
    except FileNotFoundError as error:
        raise BadIndex(
            f"{folder} holds no index (no {MANIFEST}): name the folder that `askance index` wrote, or make "
            f"one of these documents with `askance index {folder} --out {folder}-index`."
        ) from error
    except OSError as error:
        raise BadIndex(
            f"the index {folder} can't be read ({error.strerror}): have its owner let you read it, or name "
            "another."
        ) from error
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        flaw = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise BadIndex(
            f"the manifest {folder / MANIFEST} can't be read ({type(error).__name__}: {flaw}): "
            "delete the folder and build the index again."
        ) from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest atomically: a reader finds the whole old one or the whole new one."""
    content = {"format": FORMAT, "schema_version": SCHEMA_VERSION, **dataclasses.asdict(manifest)}
    text = json.dumps(content, indent=2) + "\n"
    write_atomically(folder / MANIFEST, text, temporary=folder / INCOMING_MANIFEST)


def mismatch_error(folder: Path | str, built: object, wanted: object, hint: str = "") -> BadIndex:
    """Return the error for an index that was not built as wanted: its analysis, chunking or encoder."""
    return BadIndex(
        f"the index {folder} was built with {built}, not with {wanted}: name the former, or build another "
        f"index, in another folder, with the latter.{hint}"
    )


def encoder_mismatch(folder: Path | str, made_by: EncoderRecord, name: str, wanted: object) -> BadIndex:
    """Return the error for vectors that were not made by the encoder `name`, which `wanted` describes.

    An index that was built before the prefixes of a model were known names the model alone, which now means
    the model with its prefixes.
    """
    plain = re.sub(r"^(hf:[^?]*)\?.*", r"\1?query=none", name, flags=re.DOTALL)
    hint = f" If it was built without prefixes for queries and passages, name {plain}."
    return mismatch_error(folder, made_by, wanted, "" if plain == name or "?" in made_by.name else hint)


def encoder_record(folder: Path | str, manifest: Manifest) -> EncoderRecord:
    """Return the encoder that made the vectors of the index.

    Raises:
        BadIndex: The index has no vectors.
    """
    if manifest.encoder is None:
        raise BadIndex(
            f"the index {folder} has no vectors: make them with `askance index DOCS --out {folder} --encoder "
            "bundled`, or search with bm25."
        )
    return manifest.encoder


def record_of(encoder: Encoder, folder: Path | str, manifest: Manifest) -> EncoderRecord:
    """Return the record of the encoder that made the vectors of the index, which must be `encoder`.

    Raises:
        BadIndex: The index has no vectors, or those of another encoder.
    """
    made_by = encoder_record(folder, manifest)
    if made_by.fingerprint != encoder.fingerprint:
        wanted = f"the encoder {encoder.name} (fingerprint {encoder.fingerprint})"
        raise encoder_mismatch(folder, made_by, encoder.name, wanted)
    return made_by


def check_base(
    folder: Path | str,
    manifest: Manifest,
    analysis: Analysis,
    encoder: EncoderRecord | None,
    chunking: Chunking | None,
) -> None:
    """Raise BadIndex if the index that is to be updated was built otherwise."""
    if manifest.analysis != analysis:
        raise mismatch_error(folder, manifest.analysis, analysis)
    if chunking not in (None, manifest.chunking):
        raise mismatch_error(folder, manifest.chunking, chunking)
    made_by = manifest.encoder
    if made_by is not None and (encoder is None or encoder.fingerprint != made_by.fingerprint):
        raise encoder_mismatch(folder, made_by, getattr(encoder, "name", ""), encoder or "no encoder")


def read_base(
    folder: Path, analysis: Analysis, encoder: EncoderRecord | None, chunking: Chunking | None
) -> Manifest | None:
    """Return the manifest of the index that is to be updated, or None if there is no index.

    Raises:
        BadIndex: The folder is something else, or the index was built otherwise.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise BadIndex(f"can't build an index in {folder}: it is a file; name a folder.")
    if (folder / MANIFEST).exists():
        manifest = read_manifest(folder)
        check_base(folder, manifest, analysis, encoder, chunking)
        return manifest
    ours = {LOCK, INCOMING_MANIFEST}
    names = [path.name for path in folder.iterdir()]
    if foreign := [name for name in names if name not in ours and not _GENERATION.fullmatch(name)]:
        raise BadIndex(
            f"won't build an index in {folder}: it holds other files ({min(foreign)}) and no index; "
            f"name a new or an empty folder, for example --out {folder}-index."
        )
    return None


def start_generation(path: Path, base: Path | None) -> None:
    """Create a generation in `path`, with the passages and vectors of `base`; None has none."""
    remove_generation(path)
    if base is None:
        (path / LEXICAL).mkdir(parents=True)
    else:
        ignore = shutil.ignore_patterns("*.lock", DOCUMENTS, BASE)
        shutil.copytree(base, path, copy_function=link_or_copy, ignore=ignore)


def link_or_copy(file: str | Path, copy: str | Path) -> None:
    """Hard-link a file, or copy it if hard links are not possible."""
    with suppress(OSError):
        os.link(file, copy)
        return
    shutil.copyfile(file, copy)


def remove_generation(path: Path) -> None:
    """Remove an unpublished generation, its document table first.

    A build resumes only if there is a document table, so it never resumes from a half-removed generation.
    """
    if path.exists():
        (path / DOCUMENTS).unlink(missing_ok=True)
        with suppress(OSError):  # a thread of tantivy may still write the list of its files for a moment
            shutil.rmtree(path)
        if path.exists():
            shutil.rmtree(path)


def remove_other_generations(folder: Path, *kept: int) -> None:
    """Remove all generations except those in `kept`, including any that killed builds left."""
    names = {generation_folder(folder, generation).name for generation in kept}
    for path in folder.iterdir():
        if _GENERATION.fullmatch(path.name) and path.name not in names:
            shutil.rmtree(path)
