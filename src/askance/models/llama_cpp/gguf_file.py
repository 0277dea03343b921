"""Read and write GGUF files: their metadata and their tensors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gguf import GGUFReader, GGUFWriter, ReaderTensor

from askance.core.errors import ModelSpecError
from askance.models.llama_cpp.weights import check_is_gguf

_WRITTEN_BY_GGUF = ("general.architecture", "general.alignment", "general.file_type")


class GgufFile:
    """A GGUF file, mapped into memory instead of read as a whole.

    Attributes:
        tensors: The tensors by name, in the order of the file.

    Raises:
        ModelSpecError: The file can't be read, is not a GGUF file, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        check_is_gguf(path)
        try:
            reader = GGUFReader(path)
            self.architecture = str(reader.fields["general.architecture"].contents())
        except (OSError, ValueError, LookupError) as error:
            raise ModelSpecError(
                f"model file {str(path)!r} is damaged, or not all of it is there: {error}. Fetch it again."
            ) from error
        self._fields = reader.fields
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}

    def entry(self, key: str, *, default: Any = None) -> Any:
        """Return a metadata entry of the architecture, such as ``block_count``.

        Raises:
            ModelSpecError: The entry is missing, and there is no default.
        """
        field = self._fields.get(f"{self.architecture}.{key}")
        value = default if field is None else field.contents()
        if value is None:
            raise ModelSpecError(
                f"model file {str(self.path)!r} has no entry {self.architecture}.{key}: fetch it again."
            )
        return value

    def entries(self) -> Iterator[tuple[str, Any, Any, Any]]:
        """Yield the metadata for the writer of `gguf`: name, value, type, and the type of an array's items.

        Empty entries, and entries that the writer adds itself, are left out.
        """
        for name, field in self._fields.items():
            value = field.contents()
            if not name.startswith("GGUF.") and name not in _WRITTEN_BY_GGUF and value != []:
                yield name, value, field.types[0], field.types[1] if field.types[1:] else None


def shape_of(tensor: ReaderTensor) -> tuple[int, ...]:
    """Return the shape of a tensor in numpy's order, in elements rather than bytes."""
    return tuple(int(extent) for extent in reversed(tensor.shape))


@contextmanager
def gguf_writer(target: Path, architecture: str) -> Iterator[GGUFWriter]:
    """Yield a writer, and write all that it has collected to its file at the end of the block."""
    writer = GGUFWriter(target, architecture)
    try:
        yield writer
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()
