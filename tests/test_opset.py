"""Our operators as onnx knows them: its checker and its inference, on whole models and at the edges; no crash at exit."""

from pathlib import Path
import shutil
from typing import Any

import onnx
from onnx import ModelProto, NodeProto, TensorProto, checker, defs, helper, shape_inference
from onnx.parser import parse_model
import pytest
from subprocesses import printed
from test_exports import NAMES, load
from versions import ONNX, knows_schemas

import maxpool_ort as mp
from maxpool_ort import wire
from maxpool_ort.model import make_pyop_node

MODELS = sorted((Path(__file__).parents[1] / "models").glob("*.onnx"))
Dims = tuple[int | str | None, ...]


def infer(model: ModelProto) -> dict[str, tuple[int, Dims]]:
    """Element types and dimensions of all that onnx infers in a model's own graph, as strictly as it can."""
    inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    return {
        value.name: (
            value.type.tensor_type.elem_type,
            tuple(
                dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
                for dim in value.type.tensor_type.shape.dim
            ),
        )
        for value in (*inferred.graph.value_info, *inferred.graph.output)
    }


def ours(
    x: Any, element_type: int = TensorProto.FLOAT, *, outputs: tuple[str, ...] = ("Y",), **given: Any
) -> ModelProto:
    """A model of one node of ours, and of nothing that a conversion puts around it; x is None for an unknown shape."""
    attributes = mp.MaxPoolAttributes(**given)
    node = make_pyop_node(mp.make_maxpool_node(outputs=outputs, name="pool1", **given), attributes)
    graph = helper.make_graph(
        [node, helper.make_node("Identity", ["Y"], ["Z"])],
        "ours",
        [helper.make_tensor_value_info("X", element_type, x)],
        [helper.make_tensor_value_info("Z", element_type, [None] * (len(attributes.kernel_shape) + 2))],
    )
    imports = [helper.make_opsetid("", 12), helper.make_opsetid("maxpool_ort", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=7)


# whole models


@knows_schemas
@pytest.mark.parametrize("path", MODELS, ids=[path.stem for path in MODELS])
def test_models(path: Path) -> None:
    """Each of models/, converted, is valid throughout, and its outputs are inferred to be what the original says."""
    original = onnx.load(path)
    converted = mp.convert_model(original).model
    checker.check_model(converted, full_check=True)
    inferred, proved = infer(converted), infer(mp.convert_model(undeclared(original)).model)
    for name in infer(original):  # not what a conversion puts in, which may differ
        element_type, dims = proved[name]
        assert inferred[name][0] == element_type
        sizes = [size for size in dims if isinstance(size, int)]
        assert sizes == [size for size in inferred[name][1] if isinstance(size, int)]


def undeclared(model: ModelProto) -> ModelProto:
    """A model that declares no size of its outputs."""
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.value_info[:]
    for output in copy.graph.output:
        for dim in output.type.tensor_type.shape.dim:
            dim.Clear()
    return copy


@pytest.mark.parametrize("name", NAMES)
def test_exports(name: str) -> None:
    """Each export, converted, is valid throughout; every size that is inferred for an output is that of PyTorch's."""
    model, _, expected = load(name)
    converted = mp.convert_model(undeclared(model)).model
    checker.check_model(converted, full_check=True)
    inferred = infer(converted)
    for output, array in expected.items():
        element_type, dims = inferred[output]
        assert element_type == helper.np_dtype_to_tensor_dtype(array.dtype)
        assert len(dims) == array.ndim
        assert all(not isinstance(dim, int) or dim == size for dim, size in zip(dims, array.shape, strict=True))


# (id, dimensions of X, attributes, dimensions of Y)
POOL = {"kernel_shape": [2], "strides": [2]}
SHAPES: list[tuple[str, Any, dict[str, Any], Dims]] = [
    ("sizes", (2, 3, 57, 112), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, (2, 3, 29, 56)),
    ("N and C pass", ("N", "C", 9), POOL, ("N", "C", 4)),
    ("an unknown N", (None, 3, 9), POOL, (None, 3, 4)),
    ("spatial sizes that are not known", (1, 3, "H", 9, None), {"kernel_shape": [1, 2, 1]}, (1, 3, None, 8, None)),
    ("nothing of X but its type", None, {"kernel_shape": [2, 2]}, (None, None, None, None)),
    ("a negative size is an unknown one", (1, 3, -1), POOL, (1, 3, None)),
    ("no elements", (0, 3, 9), POOL, (0, 3, 4)),
    ("no outputs", (1, 3, 1), {"kernel_shape": [2]}, (1, 3, 0)),
    ("the last window would start in the padding", (1, 1, 12), {"kernel_shape": [1], "strides": [2], "ceil_mode": 1}, (1, 1, 6)),
    ("ceil_mode beside VALID", (1, 1, 5), {**POOL, "auto_pad": "VALID", "ceil_mode": 1}, (1, 1, 2)),
    ("SAME with a dilation", (1, 1, 5), {"kernel_shape": [3], "dilations": [2], "auto_pad": "SAME_LOWER"}, (1, 1, 5)),
    ("pads larger than the kernel", (1, 1, 5), {"kernel_shape": [2], "pads": [4, 4]}, (1, 1, 12)),
]  # fmt: skip


@knows_schemas
@pytest.mark.parametrize(("x", "given", "expected"), [row[1:] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_shape(x: Any, given: dict[str, Any], expected: Dims) -> None:
    """Y, and Indices too, have the shape of the rules; what is unknown stays so, and what stands behind knows it."""
    model = ours(x, TensorProto.UINT8, outputs=("Y", "Indices"), **given)
    inferred = infer(model)
    for name, element_type in (("Y", TensorProto.UINT8), ("Indices", TensorProto.INT64), ("Z", TensorProto.UINT8)):
        got, dims = inferred[name]
        assert got == element_type
        assert tuple(None if str(dim).startswith("unk__") else dim for dim in dims) == expected


@knows_schemas
def test_x_of_unknown_type() -> None:
    """Behind an operator that onnx does not know, only Indices have a type; nothing fails."""
    model = ours((1, 1, 4), outputs=("Y", "Indices"), **POOL)
    model.graph.node.insert(0, helper.make_node("Unknown", ["X"], ["W"], domain="maxpool_ort"))
    model.graph.node[1].input[0] = "W"
    assert infer(model)["Indices"][0] == TensorProto.INT64
    assert "Y" not in infer(model)


# errors

DAMAGED = "MaxPool 'pool1': wire_attributes is damaged: 'kernel_shape=2;'; convert the original model again"
TOO_SMALL = "MaxPool 'pool1': output size of spatial axis D1 must be >= 0, got -1: input 1 "
OTHER_RANK = r"MaxPool 'pool1': X must have rank 3 \(N, C and one axis for each entry of kernel_shape \(9,\)\), got "
# (id, dimensions of X, what to do to the node, what onnx says)
ERRORS: list[tuple[str, Dims, bytes | None, str]] = [
    ("damaged attributes", (1, 1, 4), b"kernel_shape=2;", DAMAGED),
    ("damaged attributes that are no text", (1, 1, 4), b"\xff\xfe", "MaxPool 'pool1': wire_attributes is damaged: '��'; "),
    ("a negative size", (1, 1, 1), None, TOO_SMALL),
    ("another rank", (1, 4), None, OTHER_RANK + r"rank 2: shape \(1, 4\)"),
]  # fmt: skip
# (id, the model that calls f with an X, once f's body is put in)
PLACES = [
    ("the graph", "main (float[D] X) => (Y) { NODE }"),
    ("a branch", "main (bool b, float[D] X) => (Z) { Z = If (b) <then_branch = t () => (Y) { NODE }, else_branch = e () => (W) { W = Identity (X) }> }"),
    ("a function", 'main (float[D] X) => (Z) { Z = l.f (X) } <domain: "l", opset_import: ["maxpool_ort": 1]> f (X) => (Y) { NODE }'),
]  # fmt: skip


@knows_schemas
@pytest.mark.parametrize("place", [row[1] for row in PLACES], ids=[row[0] for row in PLACES])
@pytest.mark.parametrize(("x", "text", "expected"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
@pytest.mark.parametrize("strict_mode", [False, True])
def test_errors(place: str, x: Dims, text: bytes | None, expected: str, strict_mode: bool) -> None:
    """onnx's own error, with our text, wherever the node is, and whether onnx was told to be strict or not."""
    attributes = wire.encode(mp.MaxPoolAttributes(kernel_shape=[9], pads=[3, 3]))
    node = f"""Y = maxpool_ort.MaxPool <kernel_shape = [9], wire_attributes = "{attributes}", wire_node = "MaxPool 'pool1'"> (X)"""
    header = '<ir_version: 8, opset_import: ["": 12, "maxpool_ort": 1, "l": 1]>'
    model = parse_model(header + place.replace("NODE", node).replace("D", ",".join(map(str, x))))
    for found in (model.graph, *model.functions):
        for each in [*found.node, *(n for node in found.node for a in node.attribute for n in a.g.node)]:
            for attribute in each.attribute:
                if attribute.name == wire.ATTRIBUTES and text is not None:
                    attribute.s = text
    with pytest.raises(shape_inference.InferenceError, match=f"^{expected}") as info:
        shape_inference.infer_shapes(model, strict_mode=strict_mode)
    assert isinstance(info.value.__cause__, mp.MaxPoolError)


def changed(node: NodeProto, name: str, value: Any = None) -> None:
    """Let a node have another value of an attribute, or none."""
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, *([] if value is None else [helper.make_attribute(name, value)])])


# (id, what to do to a valid node of ours, what onnx says)
INVALID: list[tuple[str, Any, str]] = [
    ("an attribute that is not ours", lambda node: changed(node, "padding", 1), "Unrecognized attribute: padding for operator MaxPool"),
    ("no attributes for PyOp", lambda node: changed(node, wire.ATTRIBUTES), "Required attribute 'wire_attributes' is missing"),
    ("no name for PyOp", lambda node: changed(node, wire.NODE), "Required attribute 'wire_node' is missing"),
    ("no kernel_shape", lambda node: changed(node, "kernel_shape"), "Required attribute 'kernel_shape' is missing"),
    ("another attribute type", lambda node: changed(node, "strides", 2), "Mismatched attribute type in 'pool1 : strides'"),
    ("an output too many", lambda node: node.output.append("Indices"), "has output size 2 not in range .min=1, max=1."),
    ("no X", lambda node: node.ClearField("input"), "has input size 0 not in range .min=1, max=1."),
]  # fmt: skip


@knows_schemas
@pytest.mark.parametrize(("change", "expected"), [row[1:] for row in INVALID], ids=[row[0] for row in INVALID])
def test_the_checker_knows_our_nodes(change: Any, expected: str) -> None:
    """onnx refuses a node of ours that is not as a conversion makes it."""
    model = ours((1, 1, 4), **POOL)
    checker.check_model(model)
    change(model.graph.node[0])
    with pytest.raises(checker.ValidationError, match=expected):
        checker.check_model(model)


@knows_schemas
@pytest.mark.parametrize("element_type", [TensorProto.FLOAT16, TensorProto.INT32])
def test_the_checker_knows_our_types(element_type: int) -> None:
    """PyOp takes no 16-bit floats, around which a conversion puts Casts; and no integers of other sizes."""
    with pytest.raises(shape_inference.InferenceError, match="type"):
        checker.check_model(ours((1, 1, 4), element_type, **POOL), full_check=True)


# what is registered


@knows_schemas
@pytest.mark.parametrize(("op_type", "outputs"), [("MaxPool", ["Y"]), ("MaxPoolWithIndices", ["Y", "Indices"])])
def test_schemas(op_type: str, outputs: list[str]) -> None:
    """Both operators are there, with everything described; what models of ONNX Runtime import (1000) finds them too."""
    for version in (1, 1000):
        schema = defs.get_schema(op_type, version, "maxpool_ort")
        assert (schema.name, schema.since_version, schema.has_type_and_shape_inference_function) == (op_type, 1, True)
    assert [each.name for each in schema.inputs] == ["X"]
    assert [each.name for each in schema.outputs] == outputs
    assert {name for name, each in schema.attributes.items() if each.required} == {
        "kernel_shape",
        "wire_attributes",
        "wire_node",
    }
    described = (schema, *schema.inputs, *schema.outputs, *schema.type_constraints, *schema.attributes.values())
    assert all(getattr(each, "doc", None) or each.description for each in described)
    page = defs.get_schema("MaxPool", 12).attributes
    for name, attribute in page.items():
        assert schema.attributes[name].type == attribute.type
    assert {name for name, each in schema.attributes.items() if each.type == defs.OpSchema.AttrType.STRING} == {
        "auto_pad",
        "wire_attributes",
        "wire_node",
        "wire_domain",
        "wire_y",
    }


@pytest.mark.skipif(ONNX >= (1, 19), reason="of onnx before 1.19, to which our operators are unknown")
def test_what_onnx_1_18_does() -> None:
    """It knows none of our operators, and lets them pass."""
    assert not defs.has("MaxPool", "maxpool_ort")
    model = mp.convert_model(mp.make_maxpool_model(kernel_shape=[2], input_shape=["N", 1, "L"])).model
    checker.check_model(model, full_check=True)
    shape_inference.infer_shapes(model, strict_mode=True)


# the process

INFER = """
    import sys, threading
    import maxpool_ort as mp, onnx
    model = mp.convert_model(mp.make_maxpool_model(kernel_shape=[2], input_shape=["N", 1, 9])).model
    model.graph.output[0].type.tensor_type.shape.dim[2].Clear()
    def infer():
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph.output[0]
        return [d.dim_param or d.dim_value for d in inferred.type.tensor_type.shape.dim]
    def right():
        return infer() == ["N", 1, 8]
"""
# (id, code, what it prints)
PROCESSES = [
    ("it ends", "print(right())", "True"),
    ("it ends with schemas in its hands", "kept = onnx.defs.get_all_schemas_with_history(); print(right())", "True"),
    ("sys.exit", "print(right()); sys.exit(0)", "True"),
    ("16 threads", "got = []; threads = [threading.Thread(target=lambda: got.append(all(right() for _ in range(50)))) for _ in range(16)]; [t.start() for t in threads]; [t.join() for t in threads]; print(got == [True] * 16)", "True"),
    ("a forked child", "import os\n    if not (pid := os.fork()): os._exit(not right())\n    print(right(), os.waitpid(pid, 0)[1])", "True 0"),
    ("a pool of processes", "import multiprocessing\n    with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(len, [infer()] * 2))", "[3, 3]"),
    ("onnx.reference after it", "import onnx.reference; print(right())", "True"),
    ("reloaded", "import importlib; importlib.reload(mp.opset); importlib.reload(mp); print(right())", "True"),
    ("loaded again", "[sys.modules.pop(name) for name in list(sys.modules) if name.startswith('maxpool_ort')]; import maxpool_ort; print(maxpool_ort is mp, right())", "False True"),
    ("taken out by somebody else", "onnx.defs.deregister_schema('MaxPool', 1, 'maxpool_ort'); print(onnx.defs.has('MaxPool', 'maxpool_ort'))", "False"),
    ("put in again", "onnx.defs.deregister_schema('MaxPool', 1, 'maxpool_ort'); mp.opset.register_schemas(); print(right())", "True"),
    ("an error in the inference", "next(n for n in model.graph.node if n.domain).attribute[-2].s = b'damaged'\n    try: infer()\n    except onnx.shape_inference.InferenceError as error: print(error)", "MaxPool 'maxpool': wire_attributes is damaged: 'damaged'; convert the original model again"),
]  # fmt: skip


@knows_schemas
@pytest.mark.parametrize(("code", "expected"), [row[1:] for row in PROCESSES], ids=[row[0] for row in PROCESSES])
def test_processes(code: str, expected: str) -> None:
    """A process with our schemas in it works, and ends with 0: no crash and no hang."""
    assert printed(f"{INFER}\n    {code}\n") == expected


@knows_schemas
def test_threads_that_outlive_the_process() -> None:
    """A process whose other threads never stop inferring ends with 0; without care nearly every one crashes."""
    code = f"""{INFER}
    for _ in range(4):
        threading.Thread(target=lambda: [infer() for _ in range(10**9)], daemon=True).start()
    print(right())
    """
    assert [printed(code) for _ in range(2)] == ["True"] * 2


@knows_schemas
def test_somebody_elses_schema_stays() -> None:
    """A schema of our name and version that is there before us stays as it is, and only ours is taken out again."""
    code = """
        import atexit
        from onnx import defs
        import onnx.reference
        def left():
            print(defs.has("MaxPool", "maxpool_ort"), defs.has("MaxPoolWithIndices", "maxpool_ort"))
        atexit.register(left)
        defs.register_schema(defs.OpSchema("MaxPool", "maxpool_ort", 1, "theirs"))
        import maxpool_ort
        print(defs.get_schema("MaxPool", "maxpool_ort").doc, defs.has("MaxPoolWithIndices", "maxpool_ort"))
    """
    assert printed(code).splitlines() == ["theirs True", "True False"]


@knows_schemas
def test_two_copies(tmp_path: Path) -> None:
    """A second copy of the package, under another name, shares the schemas of the first."""
    shutil.copytree(Path(mp.__file__).parent, tmp_path / "copied", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (tmp_path / "copied").rglob("*.py"):
        path.write_text(
            path.read_text().replace("from maxpool_ort", "from copied").replace("import maxpool_ort", "import copied")
        )
    code = INFER + f"\n    sys.path.insert(0, {str(tmp_path)!r}); import copied; print(right(), copied.__name__)\n"
    assert printed(code) == "True copied"
