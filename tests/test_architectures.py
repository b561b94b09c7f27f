"""The nine real architectures in the onnx wheel that contain MaxPool: converted, they give what they gave before."""

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
import onnxruntime
import pytest

import maxpool_ort as mp

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
# (name, number of MaxPool nodes)
ARCHITECTURES = [
    ("bvlc_alexnet", 3),
    ("densenet121", 1),
    ("inception_v1", 13),
    ("inception_v2", 5),
    ("resnet50", 1),
    ("shufflenet", 1),
    ("squeezenet", 3),
    ("vgg19", 5),
    ("zfnet512", 3),
]


def shipped_input(session: onnxruntime.InferenceSession) -> dict[str, np.ndarray]:
    """The input that the shipped outputs were computed from: a ramp from 0 to 1 (as in onnx's own test runner)."""
    feed = {}
    for each in session.get_inputs():
        size = int(np.prod(each.shape))
        feed[each.name] = (np.arange(size).reshape(each.shape) / size).astype(np.float32)
    return feed


@pytest.mark.parametrize(("name", "count"), ARCHITECTURES, ids=[name for name, _ in ARCHITECTURES])
def test_architecture(name: str, count: int) -> None:
    """Outputs are the built-in's, and the shipped ones within the official tolerance; restored byte for byte."""
    path = LIGHT / f"light_{name}.onnx"
    model = onnx.load(path)
    conversion = mp.convert_model(model)
    assert (len(conversion.converted), conversion.skipped) == (count, ())
    onnx.checker.check_model(conversion.model)
    assert mp.restore_model(conversion.model).SerializeToString() == model.SerializeToString()

    built_in = onnxruntime.InferenceSession(path)
    feed = shipped_input(built_in)
    with mp.record_calls() as calls:
        outputs = mp.InferenceSession(path).run(None, feed)
    assert len(calls) == count
    for got, expected in zip(outputs, built_in.run(None, feed), strict=True):
        np.testing.assert_array_equal(got, expected)
    shipped = numpy_helper.to_array(onnx.load_tensor(LIGHT / f"light_{name}_output_0.pb"))
    np.testing.assert_allclose(outputs[0], shipped, rtol=1e-3, atol=1e-7)
