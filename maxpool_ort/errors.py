"""MaxPoolError and its leaves: everything this package raises on purpose."""

__all__ = [
    "InvalidAttributeError",
    "InvalidModelError",
    "InvalidShapeError",
    "MaxPoolError",
    "MemoryLimitError",
    "MissingDependencyError",
    "UnsupportedTypeError",
]


class MaxPoolError(ValueError):
    """Base of all errors of this package; a ValueError, so that callers need not know the package to catch them."""


class InvalidAttributeError(MaxPoolError):
    """An attribute, or a combination of attributes, that the operator's page does not allow."""


class InvalidShapeError(MaxPoolError):
    """Attributes that are legal by themselves, and a shape of X that does not fit them."""


class MissingDependencyError(MaxPoolError, ImportError):
    """A package that only sessions need, and that is not installed; an ImportError too."""


class UnsupportedTypeError(MaxPoolError, TypeError):
    """A dtype or an element type that the operator does not run; a TypeError too."""


class MemoryLimitError(MaxPoolError, MemoryError):
    """Outputs that would take more memory than they may; a MemoryError too."""


class InvalidModelError(MaxPoolError):
    """A file or message that is no ONNX model, or a model that cannot be converted or restored."""
