"""DRAGIN in each of its variants, for tests that all of them pass."""

import dataclasses

from askance.configuration.methods import method_class


def dragin(variant="dragin", **parameters):
    """A variant with those of the parameters that it has."""
    cls = method_class(variant)
    known = {field.name for field in dataclasses.fields(cls)}
    return cls(**{parameter: value for parameter, value in parameters.items() if parameter in known})
