"""The bundled model with the first of its layers alone: its tokenizer, its chat format and its embeddings in
a tenth of the time.
"""

import json
from hashlib import blake2b
from pathlib import Path

from filelock import FileLock
from gguf import GGUFWriter

from askance.models.llama_cpp.packing import GgufFile

NUM_LAYERS = 4


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


def save_first_layers(source: Path, target: Path, num_layers: int = NUM_LAYERS) -> Path:
    """Write the embeddings and the first layers of the model in a GGUF file, each tensor as it is stored."""
    whole = GgufFile(source)
    writer = GGUFWriter(target, whole.architecture)
    for name, value, kind, items in whole.entries():
        writer.add_key_value(name, num_layers if name.endswith(".block_count") else value, kind, items)
    for name, tensor in whole.tensors.items():
        if not name.startswith("blk.") or int(name.split(".")[1]) < num_layers:
            stored = tensor.data.shape if tensor.data.dtype == "uint8" else None
            writer.add_tensor(name, tensor.data, raw_shape=stored, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def link_first_layers(source: Path, target: Path, num_layers: int = NUM_LAYERS) -> Path:
    """Return a transformers folder with the first layers of the model in `source`; weights are linked."""
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).symlink_to(path)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    (target / "config.json").unlink()
    config["num_hidden_layers"] = num_layers
    if config.get("layer_types"):
        config["layer_types"] = config["layer_types"][:num_layers]
    (target / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return target
