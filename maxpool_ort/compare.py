"""ONNX Runtime's own MaxPool against ours on one model and one input, MaxPool by MaxPool: where, how much and why.

Each MaxPool is compared on the X that the model gives it with ONNX Runtime's own operators (those in bodies and
functions: with ours), so that no difference is counted again behind the node that made it. What the whole model gives
with our operators comes last.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, ValueInfoProto, numpy_helper
import onnxruntime

from maxpool_ort.array import DTYPES, max_pool
from maxpool_ort.errors import MaxPoolError
from maxpool_ort.graphs import all_nodes, is_maxpool
from maxpool_ort.inspection import NodeReport, inspect_model
from maxpool_ort.model import make_maxpool_model
from maxpool_ort.op import Call, record_calls
from maxpool_ort.schema import DOMAIN, FUNCTION_DOMAIN, MaxPoolAttributes, describe
from maxpool_ort.session import InferenceSession, finding_external_files

__all__ = ["Comparison", "Difference", "NodeComparison", "compare_model", "difference"]

Array = NDArray[Any]

_RELATIVE, _ABSOLUTE = 1e-3, 1e-5
"""Tolerances for the outputs of a whole model: other layouts of memory lead to sums in another order."""


@dataclass(frozen=True)
class Difference:
    """How two arrays that should be equal differ: in dtype and shape, or else in elements."""

    tensor: str
    theirs: str
    ours: str
    count: int | None = None
    """Elements that differ; None if the arrays are of different shape or dtype."""
    size: int | None = None
    position: tuple[int, ...] | None = None
    """Where the first of them is; theirs and ours are its values."""


@dataclass(frozen=True)
class NodeComparison:
    """One MaxPool node; those in bodies and functions once for each shape of X, the first that differs if any does."""

    node: str
    attributes: MaxPoolAttributes
    dtype: str
    x_shape: tuple[int, ...]
    differences: tuple[Difference, ...]
    reasons: tuple[str, ...]
    """What is known to differ for such a node; empty if nothing does."""


@dataclass(frozen=True)
class Comparison:
    """What ``compare_model`` found; ``refusal`` is what ONNX Runtime says if its own operators do not run the model."""

    nodes: tuple[NodeComparison, ...]
    outputs: tuple[Difference, ...]
    not_compared: tuple[str, ...]
    refusal: str = ""

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not (self.refusal or self.outputs or any(node.differences for node in self.nodes))


def compare_model(
    model: ModelProto, feed: Mapping[str, Array], path: str | os.PathLike[str] | None = None
) -> Comparison:
    """Run a standard model with ONNX Runtime's own MaxPool and with ours on the same data.

    Parameters
    ----------
    model
        A model, not converted.
    feed
        An array for each input.
    path
        The file that it was read from, if it keeps tensors in files beside that.

    Raises
    ------
    MaxPoolError
        If the model is converted already, or has an invalid MaxPool node.

    Examples
    --------
    >>> from maxpool_ort.model import make_maxpool_model
    >>> model = make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4])
    >>> (node,) = compare_model(model, {"X": np.array([[[1, np.nan, 3, 4]]], np.float32)}).nodes
    >>> node.differences[0]
    Difference(tensor='Y', theirs='1.0', ours='nan', count=2, size=3, position=(0, 0, 0))
    """
    if any(node.domain in {DOMAIN, FUNCTION_DOMAIN} for node in all_nodes(model.graph)):
        raise MaxPoolError("the model is converted already; compare the original, or restore it first")
    reports = inspect_model(model)
    reasons = {(r.where, r.node): r.built_in_differs for r in reports}
    main = f"graph {model.graph.name!r}"
    pools = [node for node in model.graph.node if is_maxpool(node)]
    inner = {(report.node, report.attributes): report for report in reports if report.where != main}
    not_compared = tuple(f"{report.node} in {report.where}" for report in inner.values())
    watched = _with_outputs(model, pools)
    try:
        theirs = _run(watched, feed, path, is_ours=False)
    except Exception as error:  # noqa: BLE001 (whatever ONNX Runtime raises is the finding)
        return Comparison((), (), not_compared, refusal=str(error).strip())
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = []
    for node in pools:
        x = theirs.get(node.input[0], feed.get(node.input[0]))
        if x is None:
            x = numpy_helper.to_array(initializers[node.input[0]], os.fspath(Path(path or "").parent))
        if x.dtype not in DTYPES:
            not_compared = (*not_compared, f"{describe(node)}: {x.dtype}")
            continue
        nodes.append(_compare_node(node, x, theirs, reasons.get((main, describe(node)), ())))
    with record_calls(with_x=True) as calls:
        ours = _run(watched, feed, path, is_ours=True)
    compared = _compare_inner([call for call in calls if call.node not in set(map(describe, pools))], inner)
    reached = {node.node for node in compared}
    not_compared = tuple(each for each in not_compared if each not in reached)
    nodes += compared
    outputs = [difference(o.name, theirs[o.name], ours[o.name], is_exact=False) for o in model.graph.output]
    return Comparison(tuple(nodes), tuple(filter(None, outputs)), not_compared)


def _compare_node(node: NodeProto, x: Array, theirs: Mapping[str, Array], reasons: tuple[str, ...]) -> NodeComparison:
    attributes = MaxPoolAttributes.from_node(node)
    given = {each.name: getattr(attributes, each.name) for each in fields(attributes)}
    ours = max_pool(x, **given, return_indices=True)
    found = [
        difference(kind, theirs[name], made)
        for kind, name, made in zip(("Y", "Indices"), node.output, ours, strict=False)
        if name
    ]
    return NodeComparison(describe(node), attributes, str(x.dtype), x.shape, tuple(filter(None, found)), reasons)


def _compare_inner(
    calls: Iterable[Call], reports: Mapping[tuple[str, MaxPoolAttributes | None], NodeReport]
) -> list[NodeComparison]:
    """Nodes in bodies and functions: ONNX Runtime's operator by itself on what each call of ours was given."""
    found: dict[tuple[str, tuple[int, ...]], NodeComparison] = {}
    for call in calls:
        report = reports.get((call.node, call.attributes))
        if report is None or call.x is None or report.element_type == "bfloat16":
            continue
        x = call.x.astype(np.float16) if report.element_type == "float16" else call.x  # a Cast stands before it
        given = {each.name: getattr(call.attributes, each.name) for each in fields(call.attributes)}
        made = max_pool(x, **given, return_indices=True)
        if call.attributes.auto_pad != "NOTSET":
            del given["pads"]
        model = make_maxpool_model(**given, input_shape=x.shape, dtype=x.dtype, with_indices=call.with_indices)
        try:
            theirs = InferenceSession(model, select=[]).run(None, {"X": x})
        except Exception as error:  # noqa: BLE001 (whatever ONNX Runtime raises is the finding)
            differences = [Difference("Y", f"refused: {str(error).strip().splitlines()[-1]}", str(made[0].shape))]
        else:
            pairs = zip(("Y", "Indices"), theirs, made, strict=False)
            differences = list(filter(None, (difference(*pair) for pair in pairs)))
        node = f"{report.node} in {report.where}"
        comparison = NodeComparison(
            node, call.attributes, str(x.dtype), x.shape, tuple(differences), report.built_in_differs
        )
        key = node, x.shape
        if key not in found or (differences and not found[key].differences):
            found[key] = comparison
    return list(found.values())


def difference(tensor: str, theirs: Any, ours: Any, *, is_exact: bool = True) -> Difference | None:
    """How two outputs differ; None if they do not."""
    if not (isinstance(theirs, np.ndarray) and isinstance(ours, np.ndarray)):  # a sequence or a map
        return None if repr(theirs) == repr(ours) else Difference(tensor, type(theirs).__name__, type(ours).__name__)
    if theirs.dtype != ours.dtype or theirs.shape != ours.shape:
        return Difference(tensor, f"{theirs.dtype} {theirs.shape}", f"{ours.dtype} {ours.shape}")
    if is_exact or theirs.dtype.kind != "f":
        same = (theirs == ours) | ((theirs != theirs) & (ours != ours))  # noqa: PLR0124 (NaN, of any dtype)
    else:
        same = np.isclose(theirs, ours, _RELATIVE, _ABSOLUTE, equal_nan=True)
    positions = np.argwhere(~same)
    if not len(positions):
        return None
    first = tuple(map(int, positions[0]))
    return Difference(tensor, str(theirs[first]), str(ours[first]), len(positions), theirs.size, first)


def _run(
    model: ModelProto, feed: Mapping[str, Array], path: str | os.PathLike[str] | None, *, is_ours: bool
) -> dict[str, Any]:
    options = onnxruntime.SessionOptions()
    with finding_external_files(model, path, options) as placed:
        session = InferenceSession(placed, options, select="all" if is_ours else [])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, dict(feed)), strict=True))


def _with_outputs(model: ModelProto, pools: list[NodeProto]) -> ModelProto:
    """A copy in which what these nodes take and put out are graph outputs too."""
    watched = ModelProto()
    watched.CopyFrom(model)
    known = {value.name for value in (*model.graph.output, *model.graph.input, *model.graph.initializer)}
    for name in dict.fromkeys(name for node in pools for name in (*node.input, *node.output) if name):
        if name not in known:
            watched.graph.output.append(ValueInfoProto(name=name))
    return watched
