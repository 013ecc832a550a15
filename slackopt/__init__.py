"""Certified keep, swap or recompute decisions for the activations of a training step."""

__version__ = "0.1.0"
