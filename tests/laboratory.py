"""The methods of the laboratory, for tests of all methods: without it, they are the product's alone."""

from askance.configuration.catalogue import METHODS
from askance.core.extensions import LABORATORY, plugins


def usable(*methods):
    """Those methods that are built in or installed."""
    return [name for name in methods if name in METHODS or name in plugins("methods")]


EVERY_METHOD = usable(*METHODS, *LABORATORY["methods"])
