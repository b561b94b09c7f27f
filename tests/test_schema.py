"""MaxPoolAttributes: what the page allows, what it does not, and what is said then."""

from collections.abc import Callable
import dataclasses
import re
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper
import pytest

import maxpool_ort as mp
from maxpool_ort.schema import check_version, describe

SCHEMA = onnx.defs.get_schema("MaxPool", 12)


def node(**attributes: Any) -> onnx.NodeProto:
    """A MaxPool node named pool1; nothing is checked."""
    return helper.make_node("MaxPool", ["X"], ["Y"], name="pool1", **attributes)


def test_names_are_those_of_the_schema() -> None:
    """The attributes are the schema's, and kernel_shape alone is required."""
    assert {field.name for field in dataclasses.fields(mp.MaxPoolAttributes)} == set(SCHEMA.attributes)
    assert [name for name, attribute in SCHEMA.attributes.items() if attribute.required] == ["kernel_shape"]


@pytest.mark.parametrize("name", sorted(SCHEMA.attributes))
def test_defaults_are_those_of_the_schema(name: str) -> None:
    """A default that onnx.defs states is ours; lists default to ones, pads to zeros, as their texts say."""
    defaults = mp.MaxPoolAttributes(kernel_shape=[2, 3])
    stated = SCHEMA.attributes[name].default_value
    in_texts = {"kernel_shape": (2, 3), "dilations": (1, 1), "strides": (1, 1), "pads": (0, 0, 0, 0)}
    if stated.type:
        value = helper.get_attribute_value(stated)
        assert getattr(defaults, name) == (value.decode() if isinstance(value, bytes) else value)
    else:
        assert getattr(defaults, name) == in_texts[name]


@pytest.mark.parametrize("name", sorted(SCHEMA.attributes))
def test_types_are_those_of_the_schema(name: str) -> None:
    """An attribute of the type that onnx.defs states is taken, and of any other type refused by name."""
    values = {
        AttributeProto.INT: 1,
        AttributeProto.INTS: [1, 1],
        AttributeProto.STRING: "VALID",
        AttributeProto.FLOAT: 1.0,
    }
    stated = int(SCHEMA.attributes[name].type.value)
    for type_, value in values.items():
        given = node(**{"kernel_shape": [1], name: value})
        if type_ != stated:
            expected = f"{name} must be an attribute of type {AttributeProto.AttributeType.Name(stated)}, got "
            with pytest.raises(mp.InvalidAttributeError, match=f"MaxPool 'pool1': {expected}"):
                mp.MaxPoolAttributes.from_node(given)


# (id, arguments, text)
INVALID: list[tuple[str, dict[str, Any], str]] = [
    ("no list", {"kernel_shape": 3}, "kernel_shape must be a list of integers, one per spatial axis, got 3"),
    ("a string", {"kernel_shape": "33"}, "kernel_shape must be a list of integers, one per spatial axis, got '33'"),
    ("floats", {"kernel_shape": [2.0]}, "kernel_shape must hold integers only, got (2.0,)"),
    ("none", {"kernel_shape": []}, "kernel_shape must have at least 1 entry, one per spatial axis, got none"),
    ("zero", {"kernel_shape": [2, 0]}, "kernel_shape must have entries from 1 to 2**60, got (2, 0)"),
    (
        "huge",
        {"kernel_shape": [2**60 + 1]},
        "kernel_shape must have entries from 1 to 2**60, got (1152921504606846977,)",
    ),
    ("strides", {"strides": [1, 2, 3]}, "strides must have 2 entries, one per spatial axis, got 3: (1, 2, 3)"),
    ("stride 0", {"strides": [0, 1]}, "strides must have entries from 1 to 2**60, got (0, 1)"),
    ("dilations", {"dilations": [1]}, "dilations must have 2 entries, one per spatial axis, got 1: (1,)"),
    ("dilation -1", {"dilations": [1, -1]}, "dilations must have entries from 1 to 2**60, got (1, -1)"),
    ("pads", {"pads": [1, 1]}, "pads must have 4 entries, all begins, then all ends, got 2: (1, 1)"),
    ("pad -1", {"pads": [0, 0, 0, -1]}, "pads must have entries from 0 to 2**60, got (0, 0, 0, -1)"),
    ("ceil_mode", {"ceil_mode": 2}, "ceil_mode must be 0 or 1, got 2"),
    ("storage_order", {"storage_order": "row"}, "storage_order must be 0 or 1, got 'row'"),
    ("auto_pad", {"auto_pad": "same"}, "auto_pad must be one of NOTSET, VALID, SAME_UPPER, SAME_LOWER, got 'same'"),
    (
        "pads and auto_pad",
        {"auto_pad": "VALID", "pads": [0, 1, 0, 0]},
        "pads must be absent or all 0 beside auto_pad VALID, got (0, 1, 0, 0); drop one of the two",
    ),
]


@pytest.mark.parametrize(("arguments", "text"), [row[1:] for row in INVALID], ids=[row[0] for row in INVALID])
def test_invalid(arguments: dict[str, Any], text: str) -> None:
    """Each kind of invalid value is refused, with what is expected and what came."""
    with pytest.raises(mp.InvalidAttributeError, match=f"^{re.escape(text)}$") as caught:
        mp.MaxPoolAttributes(**{"kernel_shape": [3, 3], **arguments})
    assert isinstance(caught.value, ValueError)


def twice() -> onnx.NodeProto:
    """A node with strides on it twice."""
    given = node(kernel_shape=[2], strides=[1])
    given.attribute.append(given.attribute[1])
    return given


def referring() -> onnx.NodeProto:
    """A node whose strides are a parameter of a function."""
    given = node(kernel_shape=[2], strides=[1])
    del given.attribute[1].ints[:]
    given.attribute[1].ref_attr_name = "s"
    return given


# (id, node, text)
INVALID_NODES: list[tuple[str, onnx.NodeProto, str]] = [
    ("other op", helper.make_node("Relu", ["X"], ["Y"], name="r"), "expected a MaxPool node, got a Relu node 'r'"),
    ("missing", node(strides=[1]), "MaxPool 'pool1': kernel_shape is required, and is missing"),
    (
        "unknown",
        node(kernel_shape=[2], alpha=1.0),
        "MaxPool 'pool1': unknown attribute 'alpha'; MaxPool-12 has auto_pad, ceil_mode, dilations, kernel_shape, pads, "
        "storage_order, strides",
    ),
    ("twice", twice(), "MaxPool 'pool1': attribute strides stands on the node twice; keep one"),
    (
        "parameter",
        referring(),
        "MaxPool 'pool1': strides refers to the attribute 's' of a function; inline the function first",
    ),
    ("value", node(kernel_shape=[0]), "MaxPool 'pool1': kernel_shape must have entries from 1 to 2**60, got (0,)"),
    (
        "unnamed",
        helper.make_node("MaxPool", ["X"], ["Y"]),
        "MaxPool with output 'Y': kernel_shape is required, and is missing",
    ),
]


@pytest.mark.parametrize(("given", "text"), [row[1:] for row in INVALID_NODES], ids=[row[0] for row in INVALID_NODES])
def test_invalid_node(given: onnx.NodeProto, text: str) -> None:
    """An invalid node is refused by its name."""
    with pytest.raises(mp.InvalidAttributeError, match=f"^{re.escape(text)}$"):
        mp.MaxPoolAttributes.from_node(given)


# (id, node, opset, element type, error, text)
NEWER: list[tuple[str, onnx.NodeProto, int, int, type[mp.MaxPoolError], str]] = [
    (
        "dilations",
        node(kernel_shape=[2], dilations=[1]),
        9,
        TensorProto.FLOAT,
        mp.InvalidAttributeError,
        r"MaxPool 'pool1': MaxPool-8 \(opset 9\) has no attribute 'dilations', only .*kernel_shape.*",
    ),
    (
        "Indices",
        helper.make_node("MaxPool", ["X"], ["Y", "I"], kernel_shape=[2]),
        7,
        TensorProto.FLOAT,
        mp.InvalidAttributeError,
        r"MaxPool with output 'Y': MaxPool-1 \(opset 7\) puts out Y, got \['Y', 'I'\]",
    ),
    (
        "three outputs",
        helper.make_node("MaxPool", ["X"], ["Y", "I", "Z"], kernel_shape=[2]),
        12,
        TensorProto.FLOAT,
        mp.InvalidAttributeError,
        r"MaxPool with output 'Y': MaxPool-12 \(opset 12\) puts out Y or Y and Indices, got \['Y', 'I', 'Z'\]",
    ),
    (
        "no input",
        helper.make_node("MaxPool", [], ["Y"], kernel_shape=[2]),
        12,
        TensorProto.FLOAT,
        mp.InvalidAttributeError,
        r"MaxPool with output 'Y': MaxPool-12 \(opset 12\) takes 1 input, X, got \[\]",
    ),
    (
        "int8",
        node(kernel_shape=[2]),
        11,
        TensorProto.INT8,
        mp.UnsupportedTypeError,
        r"MaxPool 'pool1': MaxPool-11 \(opset 11\) takes X of type tensor\(double\), tensor\(float\), tensor\(float16\), "
        r"got tensor\(int8\)",
    ),
    (
        "int32",
        node(kernel_shape=[2]),
        13,
        TensorProto.INT32,
        mp.UnsupportedTypeError,
        r"MaxPool 'pool1': MaxPool-12 \(opset 13\) takes X of type .*tensor\(int8\), tensor\(uint8\), got tensor\(int32\)",
    ),
]


@pytest.mark.parametrize(
    ("given", "opset", "element_type", "error", "text"), [row[1:] for row in NEWER], ids=[row[0] for row in NEWER]
)
def test_check_version(
    given: onnx.NodeProto, opset: int, element_type: int, error: type[mp.MaxPoolError], text: str
) -> None:
    """What an opset's version of MaxPool does not have is refused, and the newest takes what it has."""
    with pytest.raises(error, match=f"^{text}$"):
        check_version(given, opset, element_type)
    check_version(node(kernel_shape=[2], dilations=[1]), onnx.defs.onnx_opset_version(), TensorProto.BFLOAT16)


# (id, function of the attributes, text)
SHAPES: list[tuple[str, Callable[[mp.MaxPoolAttributes], object], str]] = [
    (
        "rank",
        lambda a: a.output_shape((1, 2, 3)),
        "X must have rank 4 (N, C and one axis for each of the 2 entries of kernel_shape (3, 4)), got rank 3: shape (1, 2, 3)",
    ),
    ("rank of dims", lambda a: a.output_dims(("N", 2, 3)), "got rank 3: shape ("),
    ("negative", lambda a: a.output_shape((1, 1, -5, 5)), "X must have sizes >= 0, got shape (1, 1, -5, 5)"),
    (
        "too small",
        lambda a: a.output_shape((1, 1, 9, 1)),
        "output size of spatial axis D2 must be >= 0, got -2: input 1 + pads 0 and 0 is too small for the effective kernel "
        "extent 4 (kernel 4, dilation 1) at stride 1; use a smaller kernel or dilation, or larger pads",
    ),
]


@pytest.mark.parametrize(("call", "text"), [row[1:] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_shapes_that_do_not_fit(call: Callable[[mp.MaxPoolAttributes], object], text: str) -> None:
    """A shape that does not fit is refused with every number."""
    with pytest.raises(mp.InvalidShapeError, match=re.escape(text)):
        call(mp.MaxPoolAttributes(kernel_shape=[3, 4]))


def test_equal_attributes_are_one() -> None:
    """However they are written, equal attributes compare equal, hash equal, and share one geometry."""
    spellings = [
        mp.MaxPoolAttributes(kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        mp.MaxPoolAttributes(
            kernel_shape=np.array([3, 3]), pads=(1,) * 4, strides=(1, 1), auto_pad="", ceil_mode=False
        ),
        mp.MaxPoolAttributes.from_node(node(kernel_shape=[3, 3], pads=[1] * 4, auto_pad="NOTSET", storage_order=0)),
    ]
    assert len(set(spellings)) == 1
    assert len({id(each.geometry((1, 1, 5, 5))) for each in spellings}) == 1
    assert all(type(entry) is int for entry in spellings[1].kernel_shape)


def test_frozen() -> None:
    """Attributes cannot be changed, only replaced, and a replacement is checked."""
    attributes = mp.MaxPoolAttributes(kernel_shape=[3])
    with pytest.raises(dataclasses.FrozenInstanceError):
        attributes.kernel_shape = (4,)
    assert dataclasses.replace(attributes, strides=[2]).strides == (2,)
    with pytest.raises(mp.InvalidAttributeError, match="strides must have 1 entries"):
        dataclasses.replace(attributes, strides=[2, 2])


def test_describe() -> None:
    """A node is called by its name, else by its output, else by what it lacks."""
    assert describe(helper.make_node("MaxPool", ["X"], [])) == "MaxPool without name and output"
