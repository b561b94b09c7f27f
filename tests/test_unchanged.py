"""What a conversion has no business with stays as it is: names, metadata, training, files."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
import onnxruntime
import pytest
from test_convert import convert

import maxpool_ort as mp
from maxpool_ort.runtime_types import ask_runtime

TEXT = """
    <ir_version: 8, opset_import: ["": 15, "ai.onnx.ml": 3, "l": 1], producer_name: "me", producer_version: "1",
     domain: "mine", model_version: 7, doc_string: "a model">
    main (float16[N, 2, L] X) => (float16[N, 2, K] Y, float16[N, 2, M] Z)
    { [one] A = MaxPool <kernel_shape = [2]> (X)  Y = l.f (A)  Z = MaxPool <kernel_shape = [3]> (A) }
    <domain: "l", opset_import: ["": 15], doc_string: "a function"> f (x) => (y) { y = MaxPool <kernel_shape = [2]> (x) }
"""


def decorated() -> onnx.ModelProto:
    """A model with something in every field that is no business of ours."""
    model = parse_model(TEXT)
    helper.set_model_props(model, {"a": "b"})
    graph = model.graph
    graph.doc_string = "a graph"
    graph.metadata_props.add(key="g", value="h")
    for node in (*graph.node, *model.functions[0].node):
        node.doc_string = "a node"
        node.metadata_props.add(key="n", value="m")
    graph.node[0].attribute[0].doc_string = "an attribute"
    for value in (*graph.input, *graph.output):
        value.doc_string = "a value"
        value.metadata_props.add(key="v", value="w")
        value.type.denotation = "IMAGE"
        value.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    graph.quantization_annotation.add(tensor_name="A").quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    graph.initializer.append(numpy_helper.from_array(np.float32(1), "s"))
    sparse = graph.sparse_initializer.add(dims=[4])
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(1, np.float32), "sparse"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.zeros(1, np.int64), "maxpool_ort/A/cast"))  # a name of ours
    training = model.training_info.add()
    training.algorithm.CopyFrom(parse_model(TEXT).graph)
    training.algorithm.node[0].name = "maxpool_ort/X/cast"  # here too
    model.functions[0].metadata_props.add(key="f", value="g")
    return model


def test_everything_else_stays() -> None:
    """All of it is in the converted model, in its place; new names are none that anything in the model has."""
    model = decorated()
    done = convert(model)
    for name in ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string",
                 "metadata_props", "training_info"):  # fmt: skip
        assert getattr(done.model, name) == getattr(model, name)
    before, after = model.graph, done.model.graph
    for name in ("name", "doc_string", "input", "output", "initializer", "sparse_initializer",
                 "quantization_annotation", "metadata_props"):  # fmt: skip
        assert getattr(after, name) == getattr(before, name)
    assert list(done.model.functions[:1]) == list(model.functions)
    assert list(done.model.opset_import[:3]) == list(model.opset_import)
    ours = [node for node in after.node if node.domain == "maxpool_ort"]
    for node, original in zip(ours, (before.node[0], before.node[2]), strict=True):
        assert (node.name, node.doc_string, node.metadata_props) == (
            original.name, original.doc_string, original.metadata_props,
        )  # fmt: skip
        assert list(original.attribute) == [a for a in node.attribute if not a.name.startswith("wire_")]
    taken = {"maxpool_ort/A/cast", "maxpool_ort/X/cast"}
    assert not taken & {name for node in after.node for name in (node.name, *node.output)}
    assert [node.op_type for node in after.node].count("Cast") == 3  # X once, A and Z back; not A again


def test_float16_chain() -> None:
    """Between converted nodes nothing is cast back and forth, and a tensor that nothing else takes is not made at all."""
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        main (float16[1, 2, L] X) => (float16[1, 2, a] P, float16[1, 2, b] Q, float16[1, 2, c] R) {
            A = MaxPool <kernel_shape = [2]> (X)  B = MaxPool <kernel_shape = [2]> (A)  P = MaxPool <kernel_shape = [2]> (B)
            C = MaxPool <kernel_shape = [3]> (B)  Q = Relu (C)  R = MaxPool <kernel_shape = [3]> (C)
        }
    """)
    done = convert(model)
    casts = [(node.input[0], node.output[0]) for node in done.model.graph.node if node.op_type == "Cast"]
    assert [name for name, _ in casts if "/" not in name] == ["X"]
    assert [name for _, name in casts if "/" not in name] == ["P", "C", "R"]
    x = np.random.default_rng(0).standard_normal((1, 2, 20)).astype(np.float16)
    options = onnxruntime.SessionOptions()
    mp.register(options)
    plain = onnxruntime.InferenceSession(done.model.SerializeToString(), options)
    b = mp.max_pool(mp.max_pool(x, [2]), [2])
    c = mp.max_pool(b, [3])
    for session in (mp.InferenceSession(model), plain):
        p, q, r = session.run(None, {"X": x})
        np.testing.assert_array_equal(p, mp.max_pool(b, [2]))
        np.testing.assert_array_equal(q, np.maximum(c, 0))
        np.testing.assert_array_equal(r, mp.max_pool(c, [3]))


@pytest.mark.parametrize("name", ["model.onnx", "link.onnx"])
def test_in_place(name: str, tmp_path: Path) -> None:
    """Source and destination may be the same file, be it by way of a link, and what fails leaves it as it was."""
    path = tmp_path / "model.onnx"
    onnx.save(decorated(), path)
    (tmp_path / "link.onnx").symlink_to("model.onnx")
    before = path.read_bytes()
    assert len(mp.convert_file(tmp_path / name, path).converted) == 3
    assert path.read_bytes() != before
    with pytest.raises(mp.MaxPoolError, match="select must name MaxPool nodes"):
        mp.convert_file(path, tmp_path / name, select=["nobody"])
    mp.restore_file(path, tmp_path / name)
    assert path.read_bytes() == before
    assert (tmp_path / "link.onnx").is_symlink()


def test_types_that_only_the_runtime_knows(tmp_path: Path) -> None:
    """Behind ONNX Runtime's own operators, which onnx does not know, it is asked; large weights are not read for that."""
    model = parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        main (float[1, 3, 9, 9] X) => (float[1, 16, 3, 3] Y) {
            c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (X, W)
            r = Relu (c)
            p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
            Y = MaxPool <kernel_shape = [2, 2]> (p)
        }
    """)
    weights = np.random.default_rng(0).standard_normal((16, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(np.tile(weights, (3, 1, 1, 1))[:16], "W"))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3  # it warns that the file is for this machine
    x = np.random.default_rng(1).standard_normal((1, 3, 9, 9)).astype(np.float32)
    (theirs,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"X": x})
    optimized = onnx.load(tmp_path / "optimized.onnx")
    assert "com.microsoft" in {node.domain for node in optimized.graph.node}
    done = convert(optimized)
    assert [(node.element_type, node.is_guarded) for node in done.converted] == [("float", True)] * 2
    np.testing.assert_allclose(mp.InferenceSession(optimized).run(None, {"X": x})[0], theirs, rtol=1e-5)
    tensor = optimized.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="nowhere.bin")
    assert len(mp.convert_model(optimized).converted) == 2
    optimized.graph.node[0].op_type = "NoSuchOperator"
    assert ask_runtime(optimized, ["p"]) == {}
