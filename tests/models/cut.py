"""The bundled model with the first of its layers alone: its tokenizer, its chat format and its embeddings in
a tenth of the time.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from filelock import FileLock
from gguf import GGUFWriter

from askance.models.llama_cpp.packing import GgufFile

NUM_LAYERS = 4


@contextmanager
def writing(file: Path, kind: str) -> Iterator[GGUFWriter]:
    """Yield a writer, and write all that it has collected at the end of the block."""
    writer = GGUFWriter(file, kind)
    yield writer
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def first_layers(source: Path, cache: Path) -> Path:
    """Return a GGUF file with the first layers of the model in `source`; parallel processes write it once.

    Its name in the folder `cache` tells what it was made of: the content of `source`, and this file.
    """
    made_of = blake2b(source.read_bytes() + Path(__file__).read_bytes(), digest_size=8).hexdigest()
    target = cache / f"first-layers-{made_of}.gguf"
    with FileLock(cache / "first-layers.lock"):
        if not target.exists():
            for older in cache.glob("first-layers-*"):
                older.unlink()
            save_first_layers(source, target.with_suffix(".partial")).rename(target)
    return target


def save_first_layers(source: Path, target: Path) -> Path:
    """Write the embeddings and the first layers of the model in a GGUF file, each tensor as it is stored."""
    whole = GgufFile(source)
    with writing(target, whole.architecture) as writer:
        for name, value, kind, items in whole.entries():
            value = NUM_LAYERS if name.endswith(".block_count") else value
            writer.add_key_value(name, value, kind, items)
        for name, tensor in whole.tensors.items():
            if not name.startswith("blk.") or int(name.split(".")[1]) < NUM_LAYERS:
                stored = tensor.data.shape if tensor.data.dtype == "uint8" else None
                writer.add_tensor(name, tensor.data, raw_shape=stored, raw_dtype=tensor.tensor_type)
    return target


def link_first_layers(source: Path, target: Path) -> Path:
    """Return a transformers folder with the first layers of the model in `source`; weights are linked."""
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).symlink_to(path)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    (target / "config.json").unlink()
    config["num_hidden_layers"] = NUM_LAYERS
    if config.get("layer_types"):
        config["layer_types"] = config["layer_types"][:NUM_LAYERS]
    (target / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return target
