"""The attributes as one string: all that a PyOp node can carry to Python, since PyOp cannot read lists.

A node of ours keeps the attributes of the MaxPool it came from as they were, which makes restoring exact; ONNX Runtime
ignores those. Beside them stands what its operator reads: the same attributes as one string, and the node's name for
messages.
"""

from functools import lru_cache
from typing import Any

from onnx import AttributeProto, NodeProto

from maxpool_ort.errors import InvalidAttributeError
from maxpool_ort.schema import MaxPoolAttributes, describe, shown

__all__ = [
    "ATTRIBUTES", "DOMAIN", "EMPTY_INDICES", "NODE", "Y",
    "attributes_of", "carried", "decode", "encode", "strip",
]  # fmt: skip

ATTRIBUTES = "wire_attributes"
"""Name of the string attribute that holds the attributes of MaxPool."""
NODE = "wire_node"
"""Name of the string attribute that holds what to call the node in messages."""

DOMAIN = "wire_domain"
"""Name of the string attribute, on few nodes, that holds the domain of the MaxPool, where it was spelled out."""
EMPTY_INDICES = "wire_empty_indices"
"""Name of the int attribute, on few nodes, that says that the MaxPool had an empty name as its second output."""

Y = "wire_y"
"""Name of the string attribute, on few nodes, that holds the first output, where nothing makes it any more."""
_PREFIX = "wire_"
_LISTS = ("kernel_shape", "dilations", "pads", "strides")
_FLAGS = ("ceil_mode", "storage_order")


def encode(attributes: MaxPoolAttributes) -> str:
    """Write all attributes, defaults included, as one line of text.

    >>> encode(MaxPoolAttributes(kernel_shape=[3, 3], strides=[2, 2]))
    'kernel_shape=3,3;dilations=1,1;pads=0,0,0,0;strides=2,2;ceil_mode=0;storage_order=0;auto_pad=NOTSET'
    """
    text = attributes.as_text()
    return ";".join(f"{name}={text[name]}" for name in (*_LISTS, *_FLAGS, "auto_pad"))


@lru_cache(maxsize=1024)
def decode(text: str) -> MaxPoolAttributes:
    """Read what ``encode`` wrote, and nothing else; the values are checked like any others.

    Raises
    ------
    InvalidAttributeError
        If ``encode`` would not have written this text.
    """
    fields: dict[str, Any] = dict(part.partition("=")[::2] for part in text.split(";"))
    try:
        fields |= {name: [int(entry) for entry in fields[name].split(",")] for name in _LISTS}
        fields |= {name: int(fields[name]) for name in _FLAGS}
        attributes = MaxPoolAttributes(**fields)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidAttributeError(
            f"{ATTRIBUTES} is damaged: {shown(text)}; convert the original model again"
        ) from error
    if encode(attributes) != text:
        raise InvalidAttributeError(
            f"{ATTRIBUTES} must read {shown(encode(attributes))}, got {shown(text)}; convert the original model again"
        )
    return attributes


def strip(node: NodeProto) -> NodeProto:
    """A copy of a node of ours with the attributes of MaxPool only."""
    plain = NodeProto()
    plain.CopyFrom(node)
    del plain.attribute[:]
    plain.attribute.extend(a for a in node.attribute if not a.name.startswith(_PREFIX))
    return plain


def carried(node: NodeProto) -> dict[str, AttributeProto]:
    """The other attributes: what a node of ours carries beside those of MaxPool."""
    return {attribute.name: attribute for attribute in node.attribute if attribute.name.startswith(_PREFIX)}


def attributes_of(node: NodeProto) -> MaxPoolAttributes:
    """Attributes of a node of ours, which carries them twice.

    Raises
    ------
    InvalidAttributeError
        If the two differ, for instance because a tool has changed one of them: the operator would run the other.
    """
    attributes = MaxPoolAttributes.from_node(strip(node))
    got = carried(node).get(ATTRIBUTES, AttributeProto()).s
    expected = encode(attributes)
    if got != expected.encode():
        raise InvalidAttributeError(
            f"{describe(node)}: {ATTRIBUTES} must say what the node's other attributes say, {shown(expected)}, "
            f"got {shown(got)}; edit the original model and convert it again"
        )
    return attributes
