"""Attributes as one string: exact there and back, and nothing else gets through."""

from collections.abc import Callable
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
import onnx
from onnx import helper
import pytest
from strategies import Case, cases

import maxpool_ort as mp
from maxpool_ort import model, wire

TEXT = "kernel_shape=3;dilations=1;pads=1,0;strides=2;ceil_mode=0;storage_order=0;auto_pad=NOTSET"
LARGEST = 2**60  # of an attribute's entries


@st.composite
def any_attributes(draw: st.DrawFn) -> mp.MaxPoolAttributes:
    """Attributes of up to six spatial axes, with entries as large as they may be, whether a tensor fits them or not."""
    rank = draw(st.integers(1, 6))

    def entries(count: int, smallest: int) -> list[int]:
        return draw(st.lists(st.integers(smallest, LARGEST), min_size=count, max_size=count))

    auto_pad = draw(st.sampled_from(list(mp.AutoPad)))
    return mp.MaxPoolAttributes(
        kernel_shape=entries(rank, 1),
        auto_pad=auto_pad,
        ceil_mode=draw(st.integers(0, 1)),
        dilations=entries(rank, 1),
        pads=entries(2 * rank, 0) if auto_pad is mp.AutoPad.NOTSET else None,
        storage_order=draw(st.integers(0, 1)),
        strides=entries(rank, 1),
    )


def attributes_of_case(case: Case) -> mp.MaxPoolAttributes:
    """The attributes of a drawn case."""
    return mp.MaxPoolAttributes(**case.attributes)


@settings(max_examples=300)
@given(cases().map(attributes_of_case) | any_attributes())
def test_round_trip(attributes: mp.MaxPoolAttributes) -> None:
    """What is written is one line of ASCII, and is read back as equal attributes; read twice, as the same object."""
    text = wire.encode(attributes)
    assert re.fullmatch("[!-~]+", text)
    assert wire.decode(text) == attributes
    assert wire.decode(text) is wire.decode(text)


def test_written() -> None:
    """All attributes, defaults included, in an order that does not change: converted models hold it."""
    attributes = mp.MaxPoolAttributes(
        kernel_shape=[3, 4], strides=[5, 6], dilations=[7, 8], auto_pad="SAME_LOWER", ceil_mode=1, storage_order=1
    )
    assert wire.encode(attributes) == (
        "kernel_shape=3,4;dilations=7,8;pads=0,0,0,0;strides=5,6;ceil_mode=1;storage_order=1;auto_pad=SAME_LOWER"
    )
    assert wire.encode(mp.MaxPoolAttributes(kernel_shape=[3], pads=[1, 0], strides=[2])) == TEXT


# (id, text that cannot be read)
DAMAGED: list[tuple[str, str]] = [
    # fields
    ("empty", ""),
    ("separators", ";;;"),
    ("missing list", TEXT.replace("pads=1,0;", "")),
    ("missing flag", TEXT.replace("ceil_mode=0;", "")),
    ("missing kernel_shape", TEXT.replace("kernel_shape=3;", "")),
    ("cut off", TEXT[:40]),
    ("extra field", TEXT + ";alpha=1"),
    ("extra field that Python has", TEXT + ";self=1"),
    ("name in capitals", TEXT.replace("pads", "PADS")),
    ("separator at the end", TEXT + ";"),
    ("no equals sign", TEXT.replace("strides=", "strides:")),
    ("space in a name", TEXT.replace(";pads", "; pads")),
    # what is no integer
    ("word", TEXT.replace("strides=2", "strides=two")),
    ("float", TEXT.replace("strides=2", "strides=2.0")),
    ("hexadecimal", TEXT.replace("strides=2", "strides=0x2")),
    ("empty list", TEXT.replace("strides=2", "strides=")),
    ("empty entry", TEXT.replace("pads=1,0", "pads=1,,0")),
    ("brackets", TEXT.replace("pads=1,0", "pads=[1,0]")),
    ("flag in words", TEXT.replace("ceil_mode=0", "ceil_mode=False")),
    ("more digits than Python reads", TEXT.replace("strides=2", "strides=" + "9" * 5000)),
    # what is no attribute
    ("stride 0", TEXT.replace("strides=2", "strides=0")),
    ("pad -1", TEXT.replace("pads=1,0", "pads=1,-1")),
    ("huge kernel", TEXT.replace("kernel_shape=3", f"kernel_shape={LARGEST + 1}")),
    ("two strides", TEXT.replace("strides=2", "strides=2,2")),
    ("a hundred thousand axes", TEXT.replace("kernel_shape=3", "kernel_shape=3" + ",3" * 100_000)),
    ("flag 2", TEXT.replace("ceil_mode=0", "ceil_mode=2")),
    ("auto_pad", TEXT.replace("NOTSET", "SAME")),
    ("auto_pad in small letters", TEXT.replace("NOTSET", "notset")),
    ("pads beside VALID", TEXT.replace("NOTSET", "VALID")),
    ("line at the end", TEXT + "\n"),
]


@pytest.mark.parametrize("text", [row[1] for row in DAMAGED], ids=[row[0] for row in DAMAGED])
def test_damaged(text: str) -> None:
    """What cannot be read is refused whole, with what it was."""
    told = repr(text) if len(text) <= 200 else f"{text[:200]!r}"[:-1] + f", ... {len(text)} in all'"
    expected = f"wire_attributes is damaged: {told}; convert the original model again"
    with pytest.raises(mp.InvalidAttributeError, match=f"^{re.escape(expected)}$"):
        wire.decode(text)


# (id, text that can be read, and is not what encode writes for TEXT)
OTHERWISE: list[tuple[str, str]] = [
    ("order", "auto_pad=NOTSET;" + TEXT.removesuffix(";auto_pad=NOTSET")),
    ("field twice", TEXT + ";strides=2"),
    ("field twice, the first another", "strides=7;" + TEXT),
    ("space", TEXT.replace("1,0", "1, 0")),
    ("space before", TEXT.replace("strides=2", "strides= 2")),
    ("line within", TEXT.replace("strides=2", "strides=2\n")),
    ("sign", TEXT.replace("strides=2", "strides=+2")),
    ("negative zero", TEXT.replace("pads=1,0", "pads=1,-0")),
    ("leading zero", TEXT.replace("strides=2", "strides=02")),
    ("underscore", TEXT.replace("strides=2", "strides=0_2")),
    ("other digits", TEXT.replace("strides=2", "strides=\u0662")),
    ("empty auto_pad", TEXT.replace("NOTSET", "")),
]


@pytest.mark.parametrize("text", [row[1] for row in OTHERWISE], ids=[row[0] for row in OTHERWISE])
def test_written_otherwise(text: str) -> None:
    """What says the same in other words is refused too: encode has one way to write it."""
    expected = f"wire_attributes must read {TEXT!r}, got {text!r}; convert the original model again"
    with pytest.raises(mp.InvalidAttributeError, match=f"^{re.escape(expected)}$"):
        wire.decode(text)


@settings(max_examples=300)
@given(st.text() | st.text(alphabet="kernel_shape=;,0123dilt-") | st.text(st.characters(categories=["Cs"]), min_size=1))
def test_any_text(text: str) -> None:
    """No text makes decode raise anything but its own error, lone surrogates included."""
    with pytest.raises(mp.InvalidAttributeError, match=r"^wire_attributes (is damaged: |must read ')"):
        wire.decode(text)


@settings(max_examples=500)
@given(
    start=st.integers(0, len(TEXT)),
    length=st.integers(0, 4),
    put_in=st.text(max_size=3) | st.text(alphabet="0123456789,;=-", max_size=5),
)
def test_any_slip(start: int, length: int, put_in: str) -> None:
    """A text that differs in one place is refused, or is what encode writes for what was read."""
    text = TEXT[:start] + put_in + TEXT[start + length :]
    try:
        attributes = wire.decode(text)
    except mp.InvalidAttributeError as error:
        assert str(error).startswith(("wire_attributes is damaged: ", "wire_attributes must read '"))  # noqa: PT017
    else:
        assert wire.encode(attributes) == text


def ours() -> onnx.NodeProto:
    """A node of ours, named pool1, with the attributes that TEXT says."""
    node = mp.make_maxpool_node([3], pads=[1, 0], strides=[2], name="pool1")
    return model.make_pyop_node(node, mp.MaxPoolAttributes.from_node(node))


def carried(node: onnx.NodeProto) -> onnx.AttributeProto:
    """The attribute of a node of ours that holds the string."""
    (attribute,) = (attribute for attribute in node.attribute if attribute.name == wire.ATTRIBUTES)
    return attribute


def other_strides(node: onnx.NodeProto) -> None:
    """Change an attribute of MaxPool."""
    node.attribute[2].ints[0] = 1


def no_strides(node: onnx.NodeProto) -> None:
    """Remove an attribute of MaxPool."""
    del node.attribute[2]


def other_text(node: onnx.NodeProto) -> None:
    """Change the string."""
    carried(node).s = TEXT.replace("strides=2", "strides=9").encode()


def no_text(node: onnx.NodeProto) -> None:
    """Remove the string."""
    node.attribute.remove(carried(node))


def no_string(node: onnx.NodeProto) -> None:
    """Put an integer where the string was."""
    carried(node).CopyFrom(helper.make_attribute(wire.ATTRIBUTES, 3))


def no_utf8(node: onnx.NodeProto) -> None:
    """Put something in that is no text."""
    carried(node).s = b"\xff"


def parameter(node: onnx.NodeProto) -> None:
    """Make the string a parameter of a function."""
    carried(node).ClearField("s")
    carried(node).ref_attr_name = "text"


def no_kernel_shape(node: onnx.NodeProto) -> None:
    """Remove what a MaxPool must have."""
    del node.attribute[0]


def says(strides: int, got: bytes) -> str:
    """What is said of a node and a string that differ."""
    return (
        f"MaxPool 'pool1': wire_attributes must say what the node's other attributes say, "
        f"{TEXT.replace('strides=2', f'strides={strides}')!r}, got {got!r}; edit the original model and convert it again"
    )


# (id, change to a node of ours, text)
TWO_THINGS: list[tuple[str, Callable[[onnx.NodeProto], Any], str]] = [
    ("other attribute", other_strides, says(1, TEXT.encode())),
    ("missing attribute", no_strides, says(1, TEXT.encode())),
    ("other text", other_text, says(2, TEXT.replace("strides=2", "strides=9").encode())),
    ("missing text", no_text, says(2, b"")),
    ("no string", no_string, says(2, b"")),
    ("no UTF-8", no_utf8, says(2, b"\xff")),
    ("parameter", parameter, says(2, b"")),
    ("no kernel_shape", no_kernel_shape, "MaxPool 'pool1': kernel_shape is required, and is missing"),
]


@pytest.mark.parametrize(("change", "text"), [row[1:] for row in TWO_THINGS], ids=[row[0] for row in TWO_THINGS])
def test_a_node_that_says_two_things(change: Callable[[onnx.NodeProto], Any], text: str) -> None:
    """A node of ours whose attributes and string differ is refused by its name, with both."""
    node = ours()
    assert wire.encode(wire.attributes_of(node)) == TEXT
    change(node)
    with pytest.raises(mp.InvalidAttributeError, match=f"^{re.escape(text)}$"):
        wire.attributes_of(node)


def test_strip() -> None:
    """A stripped copy has the attributes of MaxPool only, and all else that the node has; the node carries the others."""
    node = ours()
    node.doc_string = "kept"
    whole = node.SerializeToString()
    plain = wire.strip(node)
    assert [attribute.name for attribute in plain.attribute] == ["kernel_shape", "pads", "strides"]
    assert set(wire.carried(node)) == {wire.ATTRIBUTES, wire.NODE}
    assert node.SerializeToString() == whole
    del node.attribute[:]
    del plain.attribute[:]
    assert plain == node
