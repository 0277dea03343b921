"""A GGUF file with its weights unpacked to float32, so that no product of them is computed in fewer bits."""

from pathlib import Path


def unpack(source: Path, target: Path) -> None:
    """Write `source` anew: the same numbers, tokenizer and settings.

    Raises:
        NotImplementedError: weights of a kind that can't be unpacked.
    """
    import gguf

    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        # These are told anew.
        if name in ("general.architecture", "general.file_type") or name.startswith("GGUF."):
            continue
        kind = field.types[0]
        items = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=items)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
