"""The manifest: the small file of an index that says which generation of it is valid and how it was made."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askance.core.errors import BadIndex
from askance.retrieval.lexical import Analysis
from askance.runtime.durable import write_atomically

FORMAT = "askance-index"
SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
_INCOMING = ".manifest.json.new"


@dataclass(frozen=True, slots=True)
class EncoderNote:
    """The encoder that made the vectors of an index.

    Attributes:
        name: its specification, where it was loaded by one.
        fingerprint: tells its vectors from those of others.
        dimensions: numbers in a vector.
    """

    name: str
    fingerprint: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What `manifest.json` says, beside format and schema version.

    Attributes:
        generation: counts the builds that changed something; names the folder that holds the index.
        documents, passages: how many the index holds.
        content_hash: of all documents with their ids, wherever they came from and in whatever order.
        engine: the library that wrote it, with its version.
        created_at, updated_at: UTC, ISO 8601.
        encoder: what made the vectors; None where there are none.
    """

    generation: int
    analysis: Analysis
    documents: int
    passages: int
    content_hash: str
    engine: str
    created_at: str
    updated_at: str
    encoder: EncoderNote | None = None


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the index in `folder`.

    Raises:
        BadIndex: there is no such folder, it holds no index, or the index is newer than this version.
    """
    try:
        if not folder.is_dir():
            problem = "is a file" if folder.exists() else "does not exist"
            raise BadIndex(f"the index {folder} {problem}: name the folder that `askance index` wrote.")
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        is_ours = content["format"] == FORMAT
        version = int(content["schema_version"])
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
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, error) from error
    if not is_ours:
        raise BadIndex(f"{folder} holds no askance index, but one of format {content['format']!r}.")
    if version > SCHEMA_VERSION:
        raise BadIndex(
            f"the index {folder} has schema version {version}, this askance reads up to {SCHEMA_VERSION}: "
            "upgrade askance, or build the index again in another folder."
        )
    return _from_json(folder, content)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step: a reader finds the old or the new one, never a part."""
    content = {"format": FORMAT, "schema_version": SCHEMA_VERSION, **dataclasses.asdict(manifest)}
    text = json.dumps(content, indent=2) + "\n"
    write_atomically(folder / MANIFEST, text, temporary=folder / _INCOMING)


def check_analysis(folder: Path, manifest: Manifest, wanted: Analysis) -> None:
    """Raises BadIndex unless the index was built with the analysis `wanted`."""
    if manifest.analysis != wanted:
        raise BadIndex(
            f"the index {folder} was built with {manifest.analysis}, not with {wanted}: ask for the former, "
            "or build another index, in another folder, with the latter."
        )


def encoder_of(folder: Path, manifest: Manifest) -> EncoderNote:
    """What made the vectors of the index. Raises BadIndex where there are none."""
    if manifest.encoder is None:
        raise BadIndex(
            f"the index {folder} has no vectors: make them with `askance index DOCS --out {folder} --encoder "
            "bundled`, or search with bm25."
        )
    return manifest.encoder


def check_encoder(folder: Path, manifest: Manifest, name: str, fingerprint: str) -> None:
    """Raises BadIndex unless the index has vectors of the encoder with this fingerprint."""
    made_by = encoder_of(folder, manifest)
    if made_by.fingerprint != fingerprint:
        raise BadIndex(
            f"the vectors of the index {folder} were made by the encoder {made_by.name} "
            f"({made_by.dimensions} dimensions, fingerprint {made_by.fingerprint}), not by {name} "
            f"(fingerprint {fingerprint}): name the former, or build another index, in another folder, with "
            "the latter."
        )


def is_manifest_file(name: str) -> bool:
    """Whether a file of this name in an index folder is the manifest, finished or not."""
    return name in (MANIFEST, _INCOMING)


def _from_json(folder: Path, content: Mapping[str, Any]) -> Manifest:
    try:
        # Indexes from before there were vectors say nothing of an encoder.
        whole: dict[str, Any] = {"encoder": None, **content}
        fields = {field.name: whole[field.name] for field in dataclasses.fields(Manifest)}
        encoder = None if whole["encoder"] is None else EncoderNote(**whole["encoder"])
        return Manifest(**{**fields, "analysis": Analysis(**content["analysis"]), "encoder": encoder})
    except (KeyError, TypeError) as error:
        raise _damaged(folder, error) from error


def _damaged(folder: Path, error: Exception) -> BadIndex:
    return BadIndex(
        f"the manifest {folder / MANIFEST} can't be read ({type(error).__name__}: {error}): "
        "delete the folder and build the index again."
    )
