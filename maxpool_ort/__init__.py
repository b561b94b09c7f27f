"""ONNX MaxPool-12 for ONNX Runtime as an exact, vectorized NumPy operator."""

from maxpool_ort.array import max_pool
from maxpool_ort.schema import MaxPoolAttributes

__all__ = ["MaxPoolAttributes", "max_pool"]
