"""MaxPoolAttributes: what the page allows, what it does not, and what is said then."""

from collections.abc import Callable
import dataclasses
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper
import pytest
from strategies import Case, cases

import maxpool_ort as mp
from maxpool_ort.schema import check_version, describe

SCHEMA = onnx.defs.get_schema("MaxPool", 12)
TYPE_NAMES = {name: AttributeProto.AttributeType.Name(int(a.type.value)) for name, a in SCHEMA.attributes.items()}


def node(**attributes: Any) -> onnx.NodeProto:
    """A MaxPool node named pool1; nothing is checked."""
    return helper.make_node("MaxPool", ["X"], ["Y"], name="pool1", **attributes)


def test_names_are_those_of_the_schema() -> None:
    """The attributes are the schema's, and kernel_shape alone is required."""
    assert {field.name for field in dataclasses.fields(mp.MaxPoolAttributes)} == set(SCHEMA.attributes)
    assert [name for name, attribute in SCHEMA.attributes.items() if attribute.required] == ["kernel_shape"]
    with pytest.raises(TypeError, match=r"missing 1 required keyword-only argument: 'kernel_shape'$"):
        mp.MaxPoolAttributes()


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


# (name, a value that is legal and not the default, what is kept)
OF_EACH_NAME: list[tuple[str, Any, Any]] = [
    ("auto_pad", "SAME_LOWER", mp.AutoPad.SAME_LOWER),
    ("ceil_mode", 1, 1),
    ("dilations", [4, 5], (4, 5)),
    ("kernel_shape", [6, 7], (6, 7)),
    ("pads", [1, 2, 3, 0], (1, 2, 3, 0)),
    ("storage_order", 1, 1),
    ("strides", [8, 9], (8, 9)),
]


@pytest.mark.parametrize(("name", "value", "kept"), OF_EACH_NAME, ids=[row[0] for row in OF_EACH_NAME])
def test_each_attribute_is_read_from_a_node(name: str, value: Any, kept: Any) -> None:
    """An attribute of the type that onnx.defs states is kept, under its own name alone."""
    given_node = node(**{"kernel_shape": [2, 3], name: value})
    assert {a.name: AttributeProto.AttributeType.Name(a.type) for a in given_node.attribute}[name] == TYPE_NAMES[name]
    attributes = mp.MaxPoolAttributes.from_node(given_node)
    plain = mp.MaxPoolAttributes(kernel_shape=[2, 3])
    assert getattr(attributes, name) == kept
    assert [each for each in TYPE_NAMES if getattr(attributes, each) != getattr(plain, each)] == [name]


def test_every_name_has_a_row() -> None:
    """The table above is whole."""
    assert [row[0] for row in OF_EACH_NAME] == sorted(SCHEMA.attributes)


# (attribute type, a value that helper.make_node turns into it)
OF_EACH_TYPE: list[tuple[str, Any]] = [
    ("INT", 1),
    ("INTS", [1]),
    ("FLOAT", 1.0),
    ("FLOATS", [1.0]),
    ("STRING", "VALID"),
    ("STRINGS", ["VALID"]),
    ("TENSOR", helper.make_tensor("t", TensorProto.INT64, [1], [1])),
]


OF_OTHER_TYPE = [
    (name, *row) for name in sorted(SCHEMA.attributes) for row in OF_EACH_TYPE if row[0] != TYPE_NAMES[name]
]


@pytest.mark.parametrize(("name", "got", "value"), OF_OTHER_TYPE, ids=[f"{row[0]}-{row[1]}" for row in OF_OTHER_TYPE])
def test_an_attribute_of_another_type(name: str, got: str, value: Any) -> None:
    """An attribute of a type that onnx.defs does not state is refused with both types."""
    text = f"MaxPool 'pool1': {name} must be an attribute of type {TYPE_NAMES[name]}, got {got}"
    with pytest.raises(mp.InvalidAttributeError, match=f"^{text}$"):
        mp.MaxPoolAttributes.from_node(node(**{name: value}))


LISTS = {
    "kernel_shape": "one per spatial axis",
    "dilations": "one per spatial axis",
    "strides": "one per spatial axis",
    "pads": "all begins, then all ends",
}

# (id, what is no list of integers, how it is shown)
NO_LISTS: list[tuple[str, Any, str]] = [
    ("integer", 3, "3"),
    ("NumPy integer", np.int64(3), repr(np.int64(3))),
    ("array of rank 0", np.array(3), "array(3)"),
    ("text", "33", "'33'"),
    ("bytes", b"33", "b'33'"),
]


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(("value", "shown"), [row[1:] for row in NO_LISTS], ids=[row[0] for row in NO_LISTS])
def test_no_list(name: str, value: Any, shown: str) -> None:
    """What is no list is refused, with what its entries would mean."""
    text = f"{name} must be a list of integers, {LISTS[name]}, got {shown}"
    with pytest.raises(mp.InvalidAttributeError, match=f"^{re.escape(text)}$"):
        mp.MaxPoolAttributes(**{"kernel_shape": [3, 3], name: value})


# (id, what holds something else than integers, how it is shown)
NO_INTEGERS: list[tuple[str, Any, str]] = [
    ("float", [1, 2.0], "(1, 2.0)"),
    ("NumPy float", np.array([2.0]), repr((np.float64(2.0),))),
    ("text", ["2"], "('2',)"),
    ("none", [None], "(None,)"),
    ("list", [[2, 2]], "([2, 2],)"),
    ("arrays, which print on several lines", np.ones((1, 2, 2), int), "(array([[1, 1],       [1, 1]]),)"),
    ("many", ["2"] * 9, "('2', '2', '2', '2', '2', '2', '2', '2', ... 9 in all)"),
    ("not too many", ["2"] * 8, "('2', '2', '2', '2', '2', '2', '2', '2')"),
]


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(("value", "shown"), [row[1:] for row in NO_INTEGERS], ids=[row[0] for row in NO_INTEGERS])
def test_no_integers(name: str, value: Any, shown: str) -> None:
    """Entries that are no integers are refused, whatever their value: 2.0 is none."""
    text = f"{name} must hold integers only, got {shown}"
    with pytest.raises(mp.InvalidAttributeError, match=f"^{re.escape(text)}$"):
        mp.MaxPoolAttributes(**{"kernel_shape": [3, 3], name: value})


# (id, arguments beside kernel_shape [3, 3], text)
INVALID: list[tuple[str, dict[str, Any], str]] = [
    # lengths
    ("no axis", {"kernel_shape": []}, "kernel_shape must have at least 1 entry, one per spatial axis, got none"),
    ("strides", {"strides": [1, 2, 3]}, "strides must have 2 entries, one per spatial axis, got 3: (1, 2, 3)"),
    ("no strides", {"strides": ()}, "strides must have 2 entries, one per spatial axis, got 0: ()"),
    ("dilations", {"dilations": [1]}, "dilations must have 2 entries, one per spatial axis, got 1: (1,)"),
    ("pads", {"pads": [1, 1]}, "pads must have 4 entries, all begins, then all ends, got 2: (1, 1)"),
    # smallest entries: 1, but 0 for pads
    ("kernel 0", {"kernel_shape": [2, 0]}, "kernel_shape must have entries from 1 to 2**60, got (2, 0)"),
    ("stride 0", {"strides": [0, 1]}, "strides must have entries from 1 to 2**60, got (0, 1)"),
    ("dilation -1", {"dilations": [1, -1]}, "dilations must have entries from 1 to 2**60, got (1, -1)"),
    ("pad -1", {"pads": [0, 0, 0, -1]}, "pads must have entries from 0 to 2**60, got (0, 0, 0, -1)"),
    # largest entries
    ("huge kernel", {"kernel_shape": [2**60 + 1]}, f"kernel_shape must have entries from 1 to 2**60, got ({2**60 + 1},)"),
    ("huge stride", {"strides": [1, 2**63]}, f"strides must have entries from 1 to 2**60, got (1, {2**63})"),
    ("huge dilation", {"dilations": [2**99, 1]}, f"dilations must have entries from 1 to 2**60, got ({2**99}, 1)"),
    ("huge pad", {"pads": [2**61, 0, 0, 0]}, f"pads must have entries from 0 to 2**60, got ({2**61}, 0, 0, 0)"),
    # flags
    ("ceil_mode 2", {"ceil_mode": 2}, "ceil_mode must be 0 or 1, got 2"),
    ("ceil_mode -1", {"ceil_mode": -1}, "ceil_mode must be 0 or 1, got -1"),
    ("ceil_mode 1.0", {"ceil_mode": 1.0}, "ceil_mode must be 0 or 1, got 1.0"),
    ("storage_order", {"storage_order": "row"}, "storage_order must be 0 or 1, got 'row'"),
    ("no storage_order", {"storage_order": None}, "storage_order must be 0 or 1, got None"),
    # auto_pad
    ("auto_pad", {"auto_pad": "same"}, "auto_pad must be one of NOTSET, VALID, SAME_UPPER, SAME_LOWER, got 'same'"),
    ("auto_pad 1", {"auto_pad": 1}, "auto_pad must be one of NOTSET, VALID, SAME_UPPER, SAME_LOWER, got 1"),
    ("bytes", {"auto_pad": b"VALID"}, "auto_pad must be one of NOTSET, VALID, SAME_UPPER, SAME_LOWER, got b'VALID'"),
    ("VALID pads", {"auto_pad": "VALID", "pads": [0, 1, 0, 0]}, "pads must be absent or all 0 beside auto_pad VALID, got (0, 1, 0, 0); drop one of the two"),
    ("SAME pads", {"auto_pad": mp.AutoPad.SAME_LOWER, "pads": [0, 0, 0, 1]}, "pads must be absent or all 0 beside auto_pad SAME_LOWER, got (0, 0, 0, 1); drop one of the two"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "text"), [row[1:] for row in INVALID], ids=[row[0] for row in INVALID])
def test_invalid(arguments: dict[str, Any], text: str) -> None:
    """Each kind of invalid value is refused, with what is expected and what came."""
    with pytest.raises(mp.InvalidAttributeError, match=f"^{re.escape(text)}$") as caught:
        mp.MaxPoolAttributes(**{"kernel_shape": [3, 3], **arguments})
    assert isinstance(caught.value, ValueError)


def twice() -> onnx.NodeProto:
    """A node with strides on it twice."""
    given_node = node(kernel_shape=[2], strides=[1])
    given_node.attribute.append(given_node.attribute[1])
    return given_node


def referring() -> onnx.NodeProto:
    """A node whose strides are a parameter of a function."""
    given_node = node(kernel_shape=[2], strides=[1])
    del given_node.attribute[1].ints[:]
    given_node.attribute[1].ref_attr_name = "s"
    return given_node


def without_type() -> onnx.NodeProto:
    """A node whose kernel_shape does not say what it is, as before IR version 2."""
    given_node = node(kernel_shape=[2])
    given_node.attribute[0].ClearField("type")
    return given_node


# (id, node, text)
INVALID_NODES: list[tuple[str, onnx.NodeProto, str]] = [
    ("other op", helper.make_node("Relu", ["X"], ["Y"], name="r"), "expected a MaxPool node, got a Relu node 'r'"),
    ("missing", node(strides=[1]), "MaxPool 'pool1': kernel_shape is required, and is missing"),
    ("unknown", node(kernel_shape=[2], alpha=1.0), "MaxPool 'pool1': unknown attribute 'alpha'; MaxPool-12 has auto_pad, ceil_mode, dilations, kernel_shape, pads, storage_order, strides"),
    ("twice", twice(), "MaxPool 'pool1': attribute strides stands on the node twice; keep one"),
    ("parameter", referring(), "MaxPool 'pool1': strides refers to the attribute 's' of a function; inline the function first"),
    ("no type", without_type(), "MaxPool 'pool1': kernel_shape must be an attribute of type INTS, got UNDEFINED"),
    ("value", node(kernel_shape=[0]), "MaxPool 'pool1': kernel_shape must have entries from 1 to 2**60, got (0,)"),
    ("no UTF-8", node(kernel_shape=[2], auto_pad=b"\xff"), "MaxPool 'pool1': auto_pad must be one of NOTSET, VALID, SAME_UPPER, SAME_LOWER, got '\ufffd'"),
    ("unnamed", helper.make_node("MaxPool", ["X"], ["Y"]), "MaxPool with output 'Y': kernel_shape is required, and is missing"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given_node", "text"), [row[1:] for row in INVALID_NODES], ids=[row[0] for row in INVALID_NODES]
)
def test_invalid_node(given_node: onnx.NodeProto, text: str) -> None:
    """An invalid node is refused by its name."""
    with pytest.raises(mp.InvalidAttributeError, match=f"^{re.escape(text)}$"):
        mp.MaxPoolAttributes.from_node(given_node)


@given(cases())
def test_a_node_says_what_arguments_say(case: Case) -> None:
    """from_node gives what the constructor gives for the same attributes, from a node of ours too."""
    written = helper.make_node("MaxPool", ["X"], ["Y"], **case.attributes)
    attributes = mp.MaxPoolAttributes(**case.attributes)
    assert mp.MaxPoolAttributes.from_node(written) == attributes
    written.op_type = "MaxPoolWithIndices"
    assert mp.MaxPoolAttributes.from_node(written) == attributes


def pool(outputs: list[str], inputs: list[str] | None = None) -> onnx.NodeProto:
    """A MaxPool node without a name."""
    return helper.make_node("MaxPool", ["X"] if inputs is None else inputs, outputs, kernel_shape=[2])


FLOATS = "tensor(double), tensor(float), tensor(float16)"

# (id, node, opset, element type, error, text)
NOT_IN_VERSION: list[tuple[str, onnx.NodeProto, int, int, type[mp.MaxPoolError], str]] = [
    # attributes: storage_order from 8 on, dilations and ceil_mode from 10 on
    ("storage_order", node(kernel_shape=[2], storage_order=0), 7, TensorProto.FLOAT, mp.InvalidAttributeError, "MaxPool 'pool1': MaxPool-1 (opset 7) has no attribute 'storage_order', only pads, auto_pad, strides, kernel_shape"),
    ("dilations", node(kernel_shape=[2], dilations=[1]), 9, TensorProto.FLOAT, mp.InvalidAttributeError, "MaxPool 'pool1': MaxPool-8 (opset 9) has no attribute 'dilations', only storage_order, pads, auto_pad, strides, kernel_shape"),
    ("ceil_mode", node(kernel_shape=[2], ceil_mode=0), 8, TensorProto.FLOAT, mp.InvalidAttributeError, "MaxPool 'pool1': MaxPool-8 (opset 8) has no attribute 'ceil_mode', only storage_order, pads, auto_pad, strides, kernel_shape"),
    # inputs
    ("no input", pool(["Y"], []), 12, TensorProto.FLOAT, mp.InvalidAttributeError, "MaxPool with output 'Y': MaxPool-12 (opset 12) takes 1 input, X, got []"),
    ("empty input", pool(["Y"], [""]), 12, TensorProto.FLOAT, mp.InvalidAttributeError, "MaxPool with output 'Y': MaxPool-12 (opset 12) takes 1 input, X, got ['']"),
    ("two inputs", pool(["Y"], ["X", "Z"]), 12, TensorProto.FLOAT, mp.InvalidAttributeError, "MaxPool with output 'Y': MaxPool-12 (opset 12) takes 1 input, X, got ['X', 'Z']"),
    # outputs: Indices from 8 on
    ("Indices", pool(["Y", "I"]), 7, TensorProto.FLOAT, mp.InvalidAttributeError, "MaxPool with output 'Y': MaxPool-1 (opset 7) puts out Y, got ['Y', 'I']"),
    ("three outputs", pool(["Y", "I", "Z"]), 12, TensorProto.FLOAT, mp.InvalidAttributeError, "MaxPool with output 'Y': MaxPool-12 (opset 12) puts out Y or Y and Indices, got ['Y', 'I', 'Z']"),
    ("no output", pool([]), 12, TensorProto.FLOAT, mp.InvalidAttributeError, "MaxPool without name and output: MaxPool-12 (opset 12) puts out Y or Y and Indices, got []"),
    ("no Y", pool(["", "I"]), 12, TensorProto.FLOAT, mp.InvalidAttributeError, "MaxPool with output '': MaxPool-12 (opset 12) puts out Y or Y and Indices, got ['', 'I']"),
    # element types: int8 and uint8 from 12 on, bfloat16 from 22 on
    ("int8", node(kernel_shape=[2]), 11, TensorProto.INT8, mp.UnsupportedTypeError, f"MaxPool 'pool1': MaxPool-11 (opset 11) takes X of type {FLOATS}, got tensor(int8)"),
    ("bfloat16", node(kernel_shape=[2]), 21, TensorProto.BFLOAT16, mp.UnsupportedTypeError, f"MaxPool 'pool1': MaxPool-12 (opset 21) takes X of type {FLOATS}, tensor(int8), tensor(uint8), got tensor(bfloat16)"),
    ("int32", node(kernel_shape=[2]), 22, TensorProto.INT32, mp.UnsupportedTypeError, f"MaxPool 'pool1': MaxPool-22 (opset 22) takes X of type tensor(bfloat16), {FLOATS}, tensor(int8), tensor(uint8), got tensor(int32)"),
    ("unknown type", node(kernel_shape=[2]), 12, 999, mp.UnsupportedTypeError, f"MaxPool 'pool1': MaxPool-12 (opset 12) takes X of type {FLOATS}, tensor(int8), tensor(uint8), got tensor(unknown type 999)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given_node", "opset", "element_type", "error", "text"),
    [row[1:] for row in NOT_IN_VERSION],
    ids=[row[0] for row in NOT_IN_VERSION],
)
def test_not_in_version(
    given_node: onnx.NodeProto, opset: int, element_type: int, error: type[mp.MaxPoolError], text: str
) -> None:
    """What an opset's version of MaxPool does not have is refused, with the version and what it has."""
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        check_version(given_node, opset, element_type)


# (id, node, the first opset that has it, element type)
IN_VERSION: list[tuple[str, onnx.NodeProto, int, int | None]] = [
    ("float16", node(kernel_shape=[2], auto_pad="VALID", pads=[0, 0], strides=[1]), 1, TensorProto.FLOAT16),
    ("Indices, storage_order", helper.make_node("MaxPool", ["X"], ["Y", "I"], storage_order=1), 8, TensorProto.DOUBLE),
    ("empty Indices", pool(["Y", ""]), 8, TensorProto.FLOAT),
    ("dilations, ceil_mode", node(kernel_shape=[2], dilations=[1], ceil_mode=1), 10, TensorProto.FLOAT),
    ("int8", node(kernel_shape=[2]), 12, TensorProto.INT8),
    ("uint8", node(kernel_shape=[2]), 12, TensorProto.UINT8),
    ("bfloat16", node(kernel_shape=[2]), 22, TensorProto.BFLOAT16),
    ("unknown type", node(kernel_shape=[2]), 1, None),
]


@pytest.mark.parametrize(
    ("given_node", "opset", "element_type"), [row[1:] for row in IN_VERSION], ids=[row[0] for row in IN_VERSION]
)
def test_in_version(given_node: onnx.NodeProto, opset: int, element_type: int | None) -> None:
    """What a version of MaxPool brought is taken from its opset on, up to the newest."""
    for later in range(opset, onnx.defs.onnx_opset_version() + 1):
        check_version(given_node, later, element_type)


Ask = Callable[[mp.MaxPoolAttributes], object]
RANK = "X must have rank 4 (N, C and one axis for each entry of kernel_shape (3, 4)), got rank"
TOO_SMALL = "; use a smaller kernel or dilation, or larger pads"

# (id, what is asked of kernel_shape [3, 4], text)
UNFIT_SHAPES: list[tuple[str, Ask, str]] = [
    ("rank", lambda a: a.output_shape((1, 2, 3)), f"{RANK} 3: shape (1, 2, 3)"),
    ("rank 0", lambda a: a.geometry(()), f"{RANK} 0: shape ()"),
    ("rank of dims", lambda a: a.output_dims(("N", None, 3)), f"{RANK} 3: shape ('N', None, 3)"),
    ("negative", lambda a: a.output_shape((1, 1, -5, 5)), "X must have sizes >= 0, got shape (1, 1, -5, 5)"),
    ("negative N", lambda a: a.output_shape((-1, 1, 5, 5)), "X must have sizes >= 0, got shape (-1, 1, 5, 5)"),
    ("negative dim", lambda a: a.output_dims(("N", -1, None, 5)), "X must have sizes >= 0, got shape ('N', -1, None, 5)"),
    ("float", lambda a: a.output_shape((1, 1, 5.0, 5)), "X must have sizes that are integers, got shape (1, 1, 5.0, 5)"),
    ("float dim", lambda a: a.output_dims(("N", 1, 5.0, None)), "X must have sizes that are integers, got shape ('N', 1, 5.0, None)"),
    ("unknown", lambda a: a.geometry(("N", 1, 5, None)), "X must have sizes that are known, got shape ('N', 1, 5, None); use output_dims"),
    ("too small", lambda a: a.output_shape((1, 1, 9, 1)), f"output size of spatial axis D2 must be >= 0, got -2: input 1 + pads 0 and 0 is too small for the effective kernel extent 4 (kernel 4, dilation 1) at stride 1{TOO_SMALL}"),
    ("too small, all numbers", lambda a: dataclasses.replace(a, strides=[2, 5], dilations=[7, 3], pads=[1, 0, 2, 3]).geometry((0, 0, 2, 9)), f"output size of spatial axis D1 must be >= 0, got -4: input 2 + pads 1 and 2 is too small for the effective kernel extent 15 (kernel 3, dilation 7) at stride 2{TOO_SMALL}"),
    ("too small dim", lambda a: a.output_dims((None, "C", "H", 2)), f"output size of spatial axis D2 must be >= 0, got -1: input 2 + pads 0 and 0 is too small for the effective kernel extent 4 (kernel 4, dilation 1) at stride 1{TOO_SMALL}"),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "text"), [row[1:] for row in UNFIT_SHAPES], ids=[row[0] for row in UNFIT_SHAPES])
def test_shapes_that_do_not_fit(ask: Ask, text: str) -> None:
    """A shape that does not fit is refused with every number, and with what came, not what was made of it."""
    with pytest.raises(mp.InvalidShapeError, match=f"^{re.escape(text)}$"):
        ask(mp.MaxPoolAttributes(kernel_shape=[3, 4]))


# (id, dimensions of X, dimensions of Y for kernel_shape [3, 4], why)
DIMS: list[tuple[str, tuple[Any, ...], tuple[Any, ...], str]] = [
    ("known", (2, 3, 8, 9), (2, 3, 6, 6), "as output_shape"),
    ("N and C", ("N", None, 8, 9), ("N", None, 6, 6), "N and C are not pooled"),
    ("name", (2, 3, "H", 9), (2, 3, None, 6), "H - 2 has no name"),
    ("equal names", ("S", "S", "S", "S"), ("S", "S", None, None), "only N and C keep theirs"),
    ("empty name", (2, 3, "", 9), (2, 3, None, 6), "a name all the same"),
    ("nothing", (None,) * 4, (None,) * 4, "nothing is known"),
    ("empty", (0, 0, 2, 3), (0, 0, 0, 0), "sizes of 0 are legal, in and out"),
    ("NumPy integers", (np.int64(2), 3, np.uint8(8), 9), (2, 3, 6, 6), "sizes are integers of any type"),
]


@pytest.mark.parametrize(("dims", "expected"), [row[1:3] for row in DIMS], ids=[row[0] for row in DIMS])
def test_output_dims(dims: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    """N and C stay, known sizes give known sizes as plain integers, all others give None."""
    got = mp.MaxPoolAttributes(kernel_shape=[3, 4]).output_dims(dims)
    assert got == expected
    assert {type(dim) for dim in got} <= {int, str, type(None)}


def test_an_unknown_size_may_be_large() -> None:
    """What is not known may be as large as the window is with its dilations: that is no error."""
    attributes = mp.MaxPoolAttributes(kernel_shape=[2, 3], dilations=[9, 8])
    assert attributes.output_dims((1, 2, None, 20)) == (1, 2, None, 4)
    assert attributes.output_dims((1, 2, 20, "W")) == (1, 2, 11, None)


@given(cases(), st.data())
def test_output_dims_of_partly_known_shapes(case: Case, data: st.DataObject) -> None:
    """What is known of a shape gives the same sizes as the whole shape, axis by axis."""
    attributes = mp.MaxPoolAttributes(**case.attributes)
    known = [data.draw(st.booleans()) for _ in case.x.shape]
    hidden = tuple(size if is_known else f"d{size}" for size, is_known in zip(case.x.shape, known, strict=True))
    sizes = attributes.output_shape(case.x.shape)
    spatial = tuple(size if is_known else None for size, is_known in zip(sizes[2:], known[2:], strict=True))
    assert attributes.output_dims(hidden) == (*hidden[:2], *spatial)


# (id, arguments that all mean kernel_shape [3, 2] with pads of 1 at the beginning of D1)
SPELLINGS: list[tuple[str, dict[str, Any]]] = [
    ("tuples", {"kernel_shape": (3, 2), "pads": (1, 0, 0, 0)}),
    ("arrays", {"kernel_shape": np.array([3, 2]), "pads": np.array([1, 0, 0, 0], np.uint8)}),
    ("NumPy integers", {"kernel_shape": [np.int64(3), np.uint8(2)], "pads": [1, 0, 0, 0], "ceil_mode": np.int32(0)}),
    ("iterators", {"kernel_shape": iter([3, 2]), "pads": (int(axis == 0) for axis in range(4))}),
    ("defaults", {"kernel_shape": [3, 2], "pads": [1, 0, 0, 0], "strides": [1, 1], "dilations": [1, 1], "auto_pad": "NOTSET"}),
    ("other defaults", {"kernel_shape": [3, 2], "pads": [1, 0, 0, 0], "strides": None, "auto_pad": "", "storage_order": False}),
    ("AutoPad", {"kernel_shape": [3, 2], "pads": [1, 0, 0, 0], "auto_pad": mp.AutoPad.NOTSET}),
]  # fmt: skip


@pytest.mark.parametrize("arguments", [row[1] for row in SPELLINGS], ids=[row[0] for row in SPELLINGS])
def test_equal_attributes_are_one(arguments: dict[str, Any]) -> None:
    """However they are written, equal attributes compare, hash and print as one, hold plain values, share a geometry."""
    attributes = mp.MaxPoolAttributes(**arguments)
    plain = mp.MaxPoolAttributes(kernel_shape=[3, 2], pads=[1, 0, 0, 0])
    assert attributes == plain
    assert hash(attributes) == hash(plain)
    assert attributes.geometry((1, 1, 5, 5)) is plain.geometry([1, 1, 5, 5])
    assert repr(attributes) == (
        "MaxPoolAttributes(kernel_shape=(3, 2), auto_pad=<AutoPad.NOTSET: 'NOTSET'>, ceil_mode=0, dilations=(1, 1), "
        "pads=(1, 0, 0, 0), storage_order=0, strides=(1, 1))"
    )
    assert str(attributes) == "kernel_shape=3,2 pads=1,0,0,0"
    assert type(attributes.ceil_mode) is type(attributes.storage_order) is int
    assert type(attributes.auto_pad) is mp.AutoPad


@pytest.mark.parametrize(("name", "value"), [row[:2] for row in OF_EACH_NAME], ids=[row[0] for row in OF_EACH_NAME])
def test_other_attributes_differ(name: str, value: Any) -> None:
    """One other value makes attributes compare and print unlike."""
    plain = mp.MaxPoolAttributes(kernel_shape=[2, 3])
    other = dataclasses.replace(plain, **{name: value})
    assert other != plain
    shown = value if isinstance(value, str) else ",".join(map(str, np.ravel(value)))
    assert str(other) == (f"kernel_shape=2,3 {name}={shown}" if name != "kernel_shape" else "kernel_shape=6,7")


def test_a_geometry_is_worked_out_once() -> None:
    """Equal shapes share one geometry of plain integers, whoever asked first, and with what type of integer."""
    attributes = mp.MaxPoolAttributes(kernel_shape=[3, 2], strides=[2, 3])
    with pytest.raises(
        mp.InvalidShapeError, match=r"^X must have sizes that are integers, got shape \(1, 1, 13\.0, 7\)$"
    ):
        attributes.geometry((1, 1, 13.0, 7))  # equal to the next one, and hashes alike
    first = attributes.geometry((np.int64(1), True, np.uint8(13), 7))
    assert first is attributes.geometry([1, 1, 13, 7])
    assert [type(getattr(axis, field.name)) for axis in first.axes for field in dataclasses.fields(axis)] == [int] * 14
    assert [type(size) for size in attributes.output_shape((np.int64(1), True, np.uint8(13), 7))] == [int] * 4
    assert first is not attributes.geometry((1, 1, 13, 8))


def test_frozen() -> None:
    """Attributes cannot be changed, deleted or added, only replaced, and a replacement is checked."""
    attributes = mp.MaxPoolAttributes(kernel_shape=[3])
    with pytest.raises(dataclasses.FrozenInstanceError, match=r"^cannot assign to field 'kernel_shape'$"):
        attributes.kernel_shape = (4,)
    with pytest.raises(dataclasses.FrozenInstanceError, match=r"^cannot assign to field 'alpha'$"):
        attributes.alpha = 1
    with pytest.raises(dataclasses.FrozenInstanceError, match=r"^cannot delete field 'pads'$"):
        del attributes.pads
    assert dataclasses.replace(attributes, strides=[2]).strides == (2,)
    text = r"^strides must have 1 entry, one per spatial axis, got 2: \(2, 2\)$"
    with pytest.raises(mp.InvalidAttributeError, match=text):
        dataclasses.replace(attributes, strides=[2, 2])


# (id, node, what it is called)
CALLED: list[tuple[str, onnx.NodeProto, str]] = [
    ("name", node(), "MaxPool 'pool1'"),
    ("output", pool(["Y", "I"]), "MaxPool with output 'Y'"),
    ("neither", pool([]), "MaxPool without name and output"),
]


@pytest.mark.parametrize(("given_node", "text"), [row[1:] for row in CALLED], ids=[row[0] for row in CALLED])
def test_describe(given_node: onnx.NodeProto, text: str) -> None:
    """A node is called by its name, else by its output, else by what it lacks."""
    assert describe(given_node) == text
