"""The group of all commands that train models, each of which registers itself when its module is imported."""

from askance_lab.commands import train_airrag, train_curve, train_selfrag
from askance_lab.commands.train import train

__all__ = ["train", "train_airrag", "train_curve", "train_selfrag"]
