"""A GGUF file as it lies on the disk: its metadata and its tensors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gguf import GGUFReader, GGUFWriter, ReaderTensor

from askance.core.errors import ModelSpecError
from askance.models.llama_cpp.weights import check_is_gguf

_BY_THE_WRITER = ("general.architecture", "general.alignment", "general.file_type")


class GgufFile:
    """The metadata and the tensors of a file, which is mapped into memory and not read as a whole.

    Attributes:
        tensors: the tensors by name, in the order of the file.

    Raises:
        ModelSpecError: the file can't be read, is no GGUF file, or is damaged.
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
        """An entry about the architecture, such as ``block_count``.

        Raises:
            ModelSpecError: there is none, and no default.
        """
        field = self._fields.get(f"{self.architecture}.{key}")
        found = default if field is None else field.contents()
        if found is None:
            raise ModelSpecError(
                f"model file {str(self.path)!r} has no entry {self.architecture}.{key}: fetch it again."
            )
        return found

    def entries(self) -> Iterator[tuple[str, Any, Any, Any]]:
        """The metadata as name, value, type, and type of an array's items, for the writer of `gguf`.

        Left out is what that writer adds by itself, and what is empty.
        """
        for name, field in self._fields.items():
            value = field.contents()
            if not name.startswith("GGUF.") and name not in _BY_THE_WRITER and value != []:
                yield name, value, field.types[0], field.types[1] if field.types[1:] else None


def shape_of(tensor: ReaderTensor) -> tuple[int, ...]:
    """The shape of a tensor in numpy's order, of numbers and not of bytes."""
    return tuple(int(extent) for extent in reversed(tensor.shape))


def write_out(writer: GGUFWriter) -> None:
    """Write the file of all that a writer was given."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
