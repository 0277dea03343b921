"""Where the file of a GGUF model is."""

from pathlib import Path

from askance.core.errors import ModelSpecError

_SHAPE = "write gguf:FILE.gguf, or gguf:DIRECTORY for a folder that holds one"


def gguf_file(name: str) -> Path:
    """The file that a specification names by itself or by its folder.

    Raises:
        ModelSpecError: there is none, or more than one.
    """
    if not name:
        raise ModelSpecError(f"model 'gguf:' names no file: {_SHAPE}.")
    path = Path(name).expanduser()
    if not path.is_dir():
        if not path.is_file():
            raise ModelSpecError(f"model file {name!r} does not exist: check the path.")
        return path
    files = sorted(path.glob("*.gguf"))
    if len(files) != 1:
        listed = ", ".join(file.name for file in files[:5]) or "none"
        raise ModelSpecError(f"folder {name!r} holds {len(files)} .gguf files ({listed}): name one of them.")
    return files[0]
