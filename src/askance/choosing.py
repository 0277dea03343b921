"""Which method answers where none is named: the default one, or the best that the model can do."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from askance.ask import check_needs
from askance.core.errors import InputError, ModelLacks
from askance.core.ports import Encoder, Method, Model, Retriever
from askance.core.types import Role

DEFAULT_METHOD = "dragin"
INSTEAD = ("flare", "iterdrag", "single")
"""What answers in its place, in this order, where a model does not give what it needs and none was named."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A method for the models that there are; `why` says why it is not the default one, where it is not."""

    method: Method
    why: str = ""


def choose_method(
    make: Callable[[str], Method],
    named: str | None,
    models: Mapping[Role, Model],
    retriever: Retriever | None,
    encoder: Encoder | None = None,
) -> Chosen:
    """The method that was named, else the default one, else the best that can do with the model that answers.

    Args:
        make: makes a method by name, with the knobs and prompts that were given.

    Raises:
        MissingAbility: the method named needs more than there is; where the model lacks it, names methods
            that do not.
    """
    wanted = make(named or DEFAULT_METHOD)
    try:
        check_needs(wanted, models, retriever, encoder)
    except ModelLacks as lack:
        other = next(_able(make, models, retriever, encoder), None)
        if other is None:
            raise
        if named is not None:
            raise ModelLacks(
                lack.what, f"choose --method {other[0]}, which can do without it, or {lack.remedy}"
            ) from lack
        why = (
            f"{other[0]} answers, the best method that can with this model: the default {lack.what}. For "
            f"{DEFAULT_METHOD}, {lack.remedy}."
        )
        return Chosen(other[1], why)
    return Chosen(wanted)


def _able(
    make: Callable[[str], Method],
    models: Mapping[Role, Model],
    retriever: Retriever | None,
    encoder: Encoder | None,
) -> Iterator[tuple[str, Method]]:
    """Those of `INSTEAD` that can be made and have what they need."""
    for name in INSTEAD:
        with suppress(InputError):  # a knob of the other method, say
            method = make(name)
            check_needs(method, models, retriever, encoder)
            yield name, method
