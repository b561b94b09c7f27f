"""Attributes as one string: exact there and back, and nothing else gets through."""

from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
import pytest
from strategies import Case, cases

import maxpool_ort as mp
from maxpool_ort import model, wire

TEXT = "kernel_shape=3;dilations=1;pads=1,0;strides=2;ceil_mode=0;storage_order=0;auto_pad=NOTSET"


@given(cases())
def test_round_trip(case: Case) -> None:
    """What is written is read back as equal attributes."""
    attributes = mp.MaxPoolAttributes(**case.attributes)
    assert wire.decode(wire.encode(attributes)) == attributes


# (id, text)
DAMAGED = [
    ("empty", ""),
    ("missing field", TEXT.replace("pads=1,0;", "")),
    ("extra field", TEXT + ";alpha=1"),
    ("field twice", TEXT + ";strides=2"),
    ("order", "auto_pad=NOTSET;" + TEXT.removesuffix(";auto_pad=NOTSET")),
    ("space", TEXT.replace("1,0", "1, 0")),
    ("sign", TEXT.replace("strides=2", "strides=+2")),
    ("underscore", TEXT.replace("strides=2", "strides=1_0")),
    ("no integer", TEXT.replace("strides=2", "strides=two")),
    ("empty list", TEXT.replace("strides=2", "strides=")),
    ("invalid value", TEXT.replace("strides=2", "strides=0")),
    ("invalid pair", TEXT.replace("NOTSET", "VALID")),
    ("flag", TEXT.replace("ceil_mode=0", "ceil_mode=2")),
    ("other digits", TEXT.replace("strides=2", "strides=٢")),
    ("end", TEXT + "\n"),
]


@pytest.mark.parametrize("text", [row[1] for row in DAMAGED], ids=[row[0] for row in DAMAGED])
def test_damaged(text: str) -> None:
    """Anything that encode would not write is refused as such."""
    with pytest.raises(mp.InvalidAttributeError, match=r"^wire_attributes (is damaged: |must read ')"):
        wire.decode(text)


@given(st.one_of(st.text(), st.text(alphabet="kernel_shape=;,0123dilt-")))
def test_any_text(text: str) -> None:
    """No text makes decode raise anything but its own error."""
    with pytest.raises(mp.InvalidAttributeError, match=r"^wire_attributes "):
        wire.decode(text)


def test_a_node_that_says_two_things() -> None:
    """A node of ours whose attributes and string differ, or that lacks the string, is refused by its name."""
    attributes = mp.MaxPoolAttributes(kernel_shape=[3])
    node = model.make_pyop_node(mp.make_maxpool_node([3], name="pool1"), attributes)
    assert wire.attributes_of(node) == attributes
    node.attribute[0].ints[0] = 2
    with pytest.raises(
        mp.InvalidAttributeError, match=r"^MaxPool 'pool1': wire_attributes must say .*kernel_shape=2;.* got b'ker"
    ):
        wire.attributes_of(node)
    bare = helper.make_node("MaxPool", ["X"], ["Y"], domain="maxpool_ort", kernel_shape=[3])
    with pytest.raises(
        mp.InvalidAttributeError, match=r"^MaxPool with output 'Y': wire_attributes must say .* got b''; edit"
    ):
        wire.attributes_of(bare)
