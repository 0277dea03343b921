"""DRAGIN in each of its readings, for tests that all of them pass."""

import dataclasses

from askance.methods.dragin.method import Dragin
from askance.methods.dragin.paper_profile import DraginPaper
from askance.reproductions.dragin import DraginAuthors

READINGS = {"default": Dragin, "paper": DraginPaper, "code": DraginAuthors}


def dragin(profile="default", **parameters):
    """A reading with those of the parameters that it has."""
    cls = READINGS[profile]
    known = {field.name for field in dataclasses.fields(cls)}
    return cls(**{parameter: value for parameter, value in parameters.items() if parameter in known})
