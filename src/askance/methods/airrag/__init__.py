"""AirRAG (Feng et al. 2025): a tree search over reasoning actions."""

from askance.methods.airrag.method import Airrag as Airrag
from askance.methods.airrag.method import AirragLite as AirragLite
