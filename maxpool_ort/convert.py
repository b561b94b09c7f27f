"""Standard MaxPool nodes to ours and back, at any depth of a model; what was done and what was left is data."""

from dataclasses import dataclass
import os
from pathlib import Path
from typing import Literal, get_args

from onnx import ModelProto

from maxpool_ort.decide import ConvertedNode, Decider, Guard, Select, SkippedNode
from maxpool_ort.errors import InvalidModelError, MaxPoolError
from maxpool_ort.files import (
    external_files,
    has_external_data,
    place_external_files,
    read_model,
    remove_files,
    write_model,
)
from maxpool_ort.graphs import all_nodes, refusing_other_encodings
from maxpool_ort.inference import analyse, unused_functions
from maxpool_ort.repair import RepairedShape, repair_shapes
from maxpool_ort.restore import restore
from maxpool_ort.rewrite import Rewriter
from maxpool_ort.schema import DOMAIN, FUNCTION_DOMAIN

__all__ = ["Conversion", "ExternalData", "convert_file", "convert_model", "restore_file", "restore_model"]


ExternalData = Literal["refuse", "copy", "link"]


@dataclass(frozen=True)
class Conversion:
    """What ``convert_model`` did.

    ``print`` it for a summary.
    """

    model: ModelProto
    converted: tuple[ConvertedNode, ...]
    skipped: tuple[SkippedNode, ...]
    repaired: tuple[RepairedShape, ...] = ()
    """Tensors of which the model declared a shape that they have in no run; ``model`` declares the true one."""

    def __str__(self) -> str:
        """One line for each MaxPool node of the model, and for each shape that was repaired."""
        done = [
            f"converted {n.node} in {n.where}: {n.element_type} {n.attributes}" + (f" ({n.reason})" if n.reason else "")
            for n in self.converted
        ]
        left = [f"left {n.node} in {n.where}: {n.reason}" for n in self.skipped]
        repaired = [
            f"repaired the shape of {r.tensor!r} in {r.where}: {r.true}, was {r.declared}" for r in self.repaired
        ]
        return "\n".join([*done, *left, *repaired]) or "no MaxPool node in this model; nothing was converted"


@refusing_other_encodings
def convert_model(model: ModelProto, *, select: Select = "all", guard: Guard = "needed") -> Conversion:
    """Let the MaxPool nodes of a model run our operator.

    Nodes in the bodies of If, Loop and Scan are converted too, and those in model-local functions, by calling copies of
    the functions. A MaxPool between a DequantizeLinear and a QuantizeLinear of equal parameters takes the integers
    instead. Those whose element type is unknown, or whose version is newer than 22, are left. Names of nodes and
    tensors, graph inputs and outputs stay as they are; declared shapes that are wrong are repaired.

    Parameters
    ----------
    model
        Any model, with MaxPool of version 1 to 22; it is not changed.
    select
        Which nodes: ``"all"``; ``"recommended"``, those for which ONNX Runtime's own operator is wrong or clearly
        slower; a function that takes a ``ConvertedNode``, as it would be, and returns whether to; or a list of names.
    guard
        Which nodes have a guard behind them, which refuses the result of a failed run in onnxruntime's own session:
        those that sizes do not prove to be right, and those whose output may have its place already when the run
        begins, of a wrong size (``"needed"``), or ``"all"``: memory may run out anywhere, and Ctrl-C be pressed. A
        session of ours notices by itself.

    Returns
    -------
    Conversion
        The new model, each node that was converted, and each that was left and why. A converted model passes
        ``onnx.checker.check_model``, and runs where ``register`` was called on the session's options.

    Raises
    ------
    InvalidAttributeError, InvalidShapeError, UnsupportedTypeError
        With the node's name, if a MaxPool node is invalid.
    InvalidModelError
        If the model imports no version of ONNX's own operators.
    MaxPoolError
        If ``select`` or ``guard`` is something else, or names a node that is no MaxPool of the model.

    Examples
    --------
    >>> from maxpool_ort.model import make_maxpool_model
    >>> conversion = convert_model(make_maxpool_model(kernel_shape=[2, 2], input_shape=[1, 3, 8, 8]))
    >>> print(conversion)
    converted MaxPool 'maxpool' in graph 'maxpool': float kernel_shape=2,2
    >>> [(node.domain, node.op_type) for node in conversion.model.graph.node]
    [('maxpool_ort', 'MaxPool')]
    """
    if not isinstance(model, ModelProto):
        raise TypeError(f"model must be an onnx.ModelProto, got {type(model).__name__}; use convert_file for a path")
    result = ModelProto()
    result.CopyFrom(model)
    main = analyse(model)
    decider = Decider(select, guard)
    for body, site in main.walk():
        decider.decide(body, site)
    for function in unused_functions(model):
        decider.skip_function(function)
    decider.refuse_unknown_names()
    if not decider.decisions:
        return Conversion(result, (), tuple(decider.skipped))
    converted, replacements = decider.settle()
    repaired = tuple(repair_shapes(result.graph, main, main.where)) if decider.is_proved else ()
    Rewriter(result, replacements).rewrite(main)
    return Conversion(result, converted, tuple(decider.skipped), repaired)


@refusing_other_encodings
def restore_model(model: ModelProto) -> ModelProto:
    """The exact inverse of ``convert_model``: our operators become the standard MaxPool nodes that they were made from.

    Parameters
    ----------
    model
        A converted model; it is not changed. Any other model comes back as it is.

    Raises
    ------
    InvalidAttributeError
        If a node of ours says two different things about its attributes.
    InvalidModelError
        If what a conversion puts around its nodes has been changed.

    Examples
    --------
    >>> from maxpool_ort.model import make_maxpool_model
    >>> model = make_maxpool_model(kernel_shape=[2, 2], input_shape=["N", 3, None, None], dtype="float16")
    >>> restore_model(convert_model(model).model) == model
    True
    """
    if not isinstance(model, ModelProto):
        raise TypeError(f"model must be an onnx.ModelProto, got {type(model).__name__}; use restore_file for a path")
    result = ModelProto()
    result.CopyFrom(model)
    if any(node.domain in {DOMAIN, FUNCTION_DOMAIN} for node in all_nodes(result.graph)):
        restore(result)
    return result


def convert_file(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    select: Select = "all",
    guard: Guard = "needed",
    external_data: ExternalData = "refuse",
) -> Conversion:
    """``convert_model`` from file to file; ``dst``, which may be ``src``, is written whole or not at all.

    Parameters
    ----------
    src, dst
        Paths.
    select, guard
        As for ``convert_model``.
    external_data
        What to do if the model keeps tensors in files beside it, and ``dst`` is in another folder: ``"refuse"``,
        ``"copy"`` the files, or ``"link"`` them (hard links: the folders must be on one file system; ONNX Runtime
        follows such links, ``onnx.load`` does not). In the same folder both models share them, and they are not read.

    Raises
    ------
    OSError
        If ``src`` cannot be read or ``dst`` cannot be written, or another file is where one is to be copied to.
    InvalidModelError
        If ``src`` holds no ONNX model, or refers to files outside of its folder, or ``external_data`` refuses.
    MaxPoolError
        As ``convert_model``.
    """
    model = read_model(src)
    conversion = convert_model(model, select=select, guard=guard)
    _write_beside(model, src, conversion.model, dst, external_data)
    return conversion


def restore_file(
    src: str | os.PathLike[str], dst: str | os.PathLike[str], *, external_data: ExternalData = "refuse"
) -> ModelProto:
    """``restore_model`` from file to file; takes external data, raises, and writes, as ``convert_file``."""
    model = read_model(src)
    restored = restore_model(model)
    _write_beside(model, src, restored, dst, external_data)
    return restored


def _write_beside(
    before: ModelProto,
    src: str | os.PathLike[str],
    after: ModelProto,
    dst: str | os.PathLike[str],
    external_data: ExternalData,
) -> None:
    """Write what was made of a model, and put beside it what it refers to."""
    if external_data not in get_args(ExternalData):
        raise MaxPoolError(f"external_data must be one of {', '.join(get_args(ExternalData))}, got {external_data!r}")
    folders = Path(src).absolute().parent.resolve(), Path(dst).resolve().parent  # dst may be a link, which stays one
    made: list[Path] = []
    if folders[0] != folders[1] and has_external_data(before):
        if external_data == "refuse":
            raise InvalidModelError(
                f"{os.fspath(src)}: keeps tensors in files beside it, which {os.fspath(dst)} would not find; "
                f"write to the same folder, {folders[0]}, or let the files be copied or linked"
            )
        files = external_files(before, src)
        made = place_external_files(files, folders[1], as_links=external_data == "link")
    try:
        write_model(after, dst)
    except BaseException:
        remove_files(made)
        raise
