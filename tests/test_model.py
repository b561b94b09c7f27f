"""The model builder: standard models at every opset, and the nodes that a conversion puts in."""

import re
from typing import Any

import numpy as np
import onnx
from onnx import helper
import onnxruntime
import pytest

import maxpool_ort as mp
from maxpool_ort.model import make_node_before_pyop, make_pyop_node

NEWEST = onnx.defs.onnx_opset_version()
NEWEST_IN_ORT = 26
"""Opsets from there on are not released for the onnxruntime that the tests run with."""


def dims(value: onnx.ValueInfoProto) -> list[int | str | None]:
    """Declared dimensions of a graph input or output."""
    return [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
        for dim in value.type.tensor_type.shape.dim
    ]


@pytest.mark.parametrize("opset", range(8, NEWEST + 1))
@pytest.mark.parametrize("with_indices", [False, True])
def test_every_opset(opset: int, *, with_indices: bool) -> None:
    """A model of any opset passes the checker, has the lowest IR version, and runs in onnxruntime as in ours."""
    model = mp.make_maxpool_model(
        kernel_shape=[3, 2], input_shape=["N", 3, 8, 9], strides=[2, 1], opset=opset, with_indices=with_indices
    )
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == helper.find_min_ir_version_for(model.opset_import)
    assert [o.version for o in model.opset_import] == [opset]
    assert [dims(output) for output in model.graph.output] == [["N", 3, 3, 8]] * (1 + with_indices)
    if opset < NEWEST_IN_ORT:
        x = np.random.default_rng(0).standard_normal((2, 3, 8, 9)).astype(np.float32)
        theirs = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"X": x})
        ours = mp.InferenceSession(model).run(None, {"X": x})
        assert all(map(np.array_equal, ours, theirs))


def test_only_what_is_given_stands_on_the_node() -> None:
    """Attributes that are not given are absent; those given, also at their defaults, are there."""
    (attribute,) = mp.make_maxpool_node([2]).attribute
    assert (attribute.name, list(attribute.ints)) == ("kernel_shape", [2])
    node = mp.make_maxpool_node(
        [2], auto_pad="", ceil_mode=0, pads=[0, 0], storage_order=1, strides=(2,), dilations=[1]
    )
    assert {a.name: helper.get_attribute_value(a) for a in node.attribute} == {
        "kernel_shape": [2], "auto_pad": b"NOTSET", "ceil_mode": 0, "pads": [0, 0], "storage_order": 1, "strides": [2],
        "dilations": [1],
    }  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", np.float32, np.dtype("float64"), "int8", "uint8"])
def test_dtypes(dtype: Any) -> None:
    """A dtype by its name, type or object; X and Y have it, Indices are int64."""
    model = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, None], dtype=dtype, with_indices=True)
    element_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    types = [value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)]
    assert types == [element_type, element_type, onnx.TensorProto.INT64]
    assert dims(model.graph.output[0]) == [1, 1, None]


# (id, arguments, error, text)
INVALID: list[tuple[str, dict[str, Any], type[mp.MaxPoolError], str]] = [
    ("old opset", {"opset": 7}, mp.InvalidAttributeError, f"opset must be from 8 to {NEWEST}, the newest that this onnx knows, got 7"),
    ("new opset", {"opset": 99}, mp.InvalidAttributeError, "opset must be from 8 to "),
    ("newer attribute", {"opset": 9, "ceil_mode": 1}, mp.InvalidAttributeError, "MaxPool 'maxpool': MaxPool-8 (opset 9) has no attribute 'ceil_mode'"),
    ("newer dtype", {"opset": 11, "dtype": "int8"}, mp.UnsupportedTypeError, "MaxPool-11 (opset 11) takes X of type tensor(double), "),
    ("dtype", {"dtype": "int32"}, mp.UnsupportedTypeError, "dtype must be one of float16, float32, float64, int8, uint8, got int32"),
    ("no dtype", {"dtype": "half-ish"}, mp.UnsupportedTypeError, "dtype must be one of float16, float32, float64, int8, uint8, got 'half-ish'"),
    ("rank", {"input_shape": [1, 1, 2, 2]}, mp.InvalidShapeError, "X must have rank 3 "),
    ("size", {"input_shape": ["N", 1, 1], "kernel_shape": [4]}, mp.InvalidShapeError, "output size of spatial axis D1 must be >= 0, got -2"),
    ("attribute", {"strides": [0]}, mp.InvalidAttributeError, "strides must have entries from 1 to 2**60, got (0,)"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "text"), [row[1:] for row in INVALID], ids=[row[0] for row in INVALID])
def test_invalid(arguments: dict[str, Any], error: type[mp.MaxPoolError], text: str) -> None:
    """What cannot be built is refused with the reason."""
    with pytest.raises(error, match=re.escape(text)):
        mp.make_maxpool_model(**{"kernel_shape": [2], "input_shape": [1, 1, 4], **arguments})


def spelled_out() -> onnx.NodeProto:
    """A node with everything on it that a node may have."""
    node = mp.make_maxpool_node([2], outputs=["y", ""], name="pool1", strides=[1])
    node.domain = "ai.onnx"
    node.doc_string = "the first one"
    node.attribute[0].doc_string = "the window"
    node.metadata_props.add(key="from", value="a test")
    return node


@pytest.mark.parametrize(
    "node",
    [mp.make_maxpool_node([2]), mp.make_maxpool_node([2, 2], outputs=["y", "i"], auto_pad="SAME_LOWER"), spelled_out()],
    ids=["Y", "Y and Indices", "spelled out"],
)
def test_our_node_holds_all_of_the_standard_one(node: onnx.NodeProto) -> None:
    """What was made of a node gives that node back, byte for byte, and PyOp sees no empty output."""
    ours = make_pyop_node(node, mp.MaxPoolAttributes.from_node(node))
    assert make_node_before_pyop(ours).SerializeToString() == node.SerializeToString()
    assert (ours.name, list(ours.input)) == (node.name, list(node.input))
    assert all(ours.output)
    assert ours.op_type == ("MaxPoolWithIndices" if len(ours.output) == 2 else "MaxPool")
