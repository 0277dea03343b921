"""Hold data out from training by a hash, so that the choice depends on nothing but the data themselves."""

from hashlib import blake2b


def is_held_out_unit(unit: str, share: float) -> bool:
    """Return whether a unit of data is held out from training, if this share of all units is.

    Args:
        unit: What is held out as a whole, such as the name of a dataset and the id of a question.
    """
    digest = blake2b(unit.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 < share


def is_held_out_question(question: str, share: float) -> bool:
    """Return whether a question is held out, which it is in all files and runs, or in none.

    Letter case and the number of spaces make no difference.
    """
    return is_held_out_unit(" ".join(question.split()).lower(), share)
