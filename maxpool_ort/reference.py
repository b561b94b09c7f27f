"""Our operators for ``onnx.reference``, which runs models in Python and NumPy alone, without ONNX Runtime.

>>> import numpy as np
>>> from onnx.reference import ReferenceEvaluator
>>> from maxpool_ort.convert import convert_model
>>> from maxpool_ort.model import make_maxpool_model
>>> model = convert_model(make_maxpool_model(kernel_shape=[2], input_shape=["N", 1, "L"])).model
>>> evaluator = ReferenceEvaluator(model, new_ops=make_reference_ops())
>>> evaluator.run(None, {"X": np.array([[[1, 3, 2]]], np.float32)})
[array([[[3., 3.]]], dtype=float32)]
"""

from typing import Any

from numpy.typing import NDArray
from onnx.reference.op_run import OpRun

from maxpool_ort import wire
from maxpool_ort.array import max_pool
from maxpool_ort.errors import MaxPoolError
from maxpool_ort.failures import with_context
from maxpool_ort.schema import DOMAIN, OP_TYPE, OP_TYPE_WITH_INDICES

__all__ = ["make_reference_ops"]


class _MaxPool(OpRun):
    """What both operators share."""

    op_domain = DOMAIN
    with_indices = False

    def run(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().run(*args, **kwargs)  # type: ignore[no-untyped-call]
        except TypeError as error:  # it puts its own in the place of those of a _run
            if isinstance(error.__cause__, MaxPoolError):
                raise error.__cause__ from error.__cause__.__cause__
            raise

    def _run(self, x: NDArray[Any], **wired: Any) -> tuple[NDArray[Any], ...]:
        wired = {wire.ATTRIBUTES: "", wire.NODE: self.op_type, **wired}
        try:
            attributes = vars(wire.decode(wired[wire.ATTRIBUTES]))
            outputs = max_pool(x, **attributes, return_indices=self.with_indices)  # type: ignore[call-overload]
        except MaxPoolError as error:
            raise with_context(error, wired, x) from error
        return outputs if isinstance(outputs, tuple) else (outputs,)


# An evaluator finds operators by the names of their classes.
_Y = type(OP_TYPE, (_MaxPool,), {})
_Y_AND_INDICES = type(OP_TYPE_WITH_INDICES, (_MaxPool,), {"with_indices": True})


def make_reference_ops() -> list[type[OpRun]]:
    """Both operators, in a new list: onnx's evaluator appends its own to what it is given."""
    return [_Y, _Y_AND_INDICES]
