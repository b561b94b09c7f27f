"""Models as PyTorch's two exporters write them: converted, they give what PyTorch gave (scripts/build_exports.py)."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from versions import skip_unless_known

import maxpool_ort as mp

EXPORTS = Path(__file__).parent / "data" / "exports"
# (name, number of MaxPools that a run executes): a call of a function counts what is in it, a loop every round
CALLS = [
    ("adaptive1d_dynamo18", 1),
    ("adaptive1d_torchscript12", 1),
    ("adaptive2d_dynamo18", 2),
    ("adaptive2d_torchscript12", 2),
    ("adaptive3d_dynamo18", 1),
    ("adaptive3d_torchscript11", 1),
    ("adaptive_global_torchscript12", 1),
    ("bfloat16_dynamo22", 1),
    ("ceil_mode_chain_dynamo18", 2),
    ("ceil_mode_chain_torchscript12", 2),
    ("ceil_mode_dynamo18", 1),
    ("ceil_mode_gap_dynamo18", 1),
    ("ceil_mode_gap_torchscript12", 1),
    ("ceil_mode_pad_dynamo18", 1),
    ("ceil_mode_pad_dynamo22", 1),
    ("ceil_mode_pad_torchscript10", 1),
    ("ceil_mode_pad_torchscript12", 1),
    ("ceil_mode_torchscript11", 1),
    ("cnn_dynamo18", 2),
    ("cnn_torchscript12", 2),
    ("cond_dynamo18", 1),
    ("dilation_dynamo18", 1),
    ("dilation_torchscript12", 1),
    ("dynamic_batch_dynamo20", 2),
    ("dynamic_batch_torchscript11", 2),
    ("dynamic_dynamo18", 2),
    ("dynamic_indices_dynamo18", 2),
    ("dynamic_indices_torchscript12", 2),
    ("dynamic_torchscript12", 2),
    ("float64_dynamo18", 1),
    ("float64_torchscript12", 1),
    ("functions_cnn_torchscript15", 2),
    ("functions_dynamic_torchscript17", 3),
    ("functions_float16_torchscript15", 3),
    ("functions_indices_torchscript15", 2),
    ("functions_torchscript15", 3),
    ("functions_two_types_torchscript16", 2),
    ("if_torchscript11", 1),
    ("if_torchscript13", 1),
    ("indices1d_dynamo18", 2),
    ("indices1d_torchscript12", 2),
    ("indices2d_dynamo18", 2),
    ("indices2d_torchscript11", 2),
    ("indices3d_dynamo20", 2),
    ("indices3d_torchscript12", 2),
    ("indices_all_attributes_dynamo18", 2),
    ("indices_all_attributes_torchscript12", 2),
    ("indices_only_dynamo18", 2),
    ("indices_only_torchscript12", 2),
    ("int8_dynamo18", 1),
    ("int8_torchscript12", 1),
    ("loop_of_if_torchscript12", 2),
    ("loop_torchscript11", 3),
    ("peaks_dynamo18", 1),
    ("peaks_torchscript12", 1),
    ("pool1d_dynamo18", 1),
    ("pool1d_torchscript11", 1),
    ("pool2d_dynamo12", 1),
    ("pool2d_dynamo18", 1),
    ("pool2d_dynamo22", 1),
    ("pool2d_dynamo26", 1),
    ("pool2d_torchscript10", 1),
    ("pool2d_torchscript12", 1),
    ("pool2d_torchscript21", 1),
    ("pool2d_torchscript7", 1),
    ("pool2d_torchscript9", 1),
    ("pool3d_dynamo20", 1),
    ("pool3d_torchscript12", 1),
    ("scan_dynamo18", 3),
    ("spp_dynamo18", 3),
    ("spp_torchscript12", 3),
    ("sppf_float16_dynamo18", 3),
    ("sppf_float16_torchscript11", 3),
    ("uint8_dynamo18", 1),
    ("uint8_torchscript12", 1),
    ("unbatched_dynamo18", 2),
    ("unpool_dynamo18", 2),
    ("while_loop_dynamo18", 2),
]
NAMES = [name for name, _ in CALLS]
# what onnx infers, and torchscript therefore declares, has one output too many along an axis (onnx/onnx#5711)
WRONGLY_DECLARED = {
    "ceil_mode_chain_torchscript12": ([2, 3, 4, 4], [2, 3, 3, 3]),
    "ceil_mode_gap_torchscript12": ([2, 3, 7, 5], [2, 3, 6, 4]),
    "ceil_mode_pad_torchscript10": ([2, 3, 5, 4], [2, 3, 4, 3]),
    "ceil_mode_pad_torchscript12": ([2, 3, 5, 4], [2, 3, 4, 3]),
}
ARITHMETIC = {"Conv", "Gemm"}
"""Operators whose results depend on the order of their sums."""


def load(name: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A model, its sample inputs, and what PyTorch gives for them, by name."""
    model = onnx.load(EXPORTS / f"{name}.onnx")
    with np.load(EXPORTS / f"{name}.npz") as arrays:
        feed = {value.name: arrays[value.name] for value in model.graph.input}
        return model, feed, {value.name: arrays[value.name] for value in model.graph.output}


def called_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Nodes of the graph, in bodies, and, at each call, of the function that is called."""
    functions = {(function.domain, function.name): function for function in model.functions}

    def walk(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        for node in nodes:
            yield node
            for attribute in node.attribute:
                yield from walk(attribute.g.node)
            if (node.domain, node.op_type) in functions:
                yield from walk(functions[node.domain, node.op_type].node)

    return walk(model.graph.node)


def is_standard_maxpool(node: onnx.NodeProto) -> bool:
    """Whether this is ONNX's own MaxPool."""
    return node.op_type == "MaxPool" and node.domain in {"", "ai.onnx"}


@pytest.mark.parametrize("name", NAMES)
def test_conversion(name: str) -> None:
    """Every MaxPool that a run can reach is converted, the result is valid, and restored it is what it was."""
    model = load(name)[0]
    assert any(map(is_standard_maxpool, called_nodes(model)))
    done = mp.convert_model(model)
    assert done.converted
    assert not done.skipped
    assert not any(map(is_standard_maxpool, called_nodes(done.model)))
    onnx.checker.check_model(done.model)
    assert mp.restore_model(done.model) == model


@pytest.mark.parametrize(("name", "calls"), CALLS, ids=NAMES)
def test_outputs(name: str, calls: int) -> None:
    """A run gives what PyTorch gave, NaN and infinities too; where sums are in between, nearly."""
    model, feed, expected = load(name)
    skip_unless_known(next(each.version for each in model.opset_import if not each.domain))
    session = mp.InferenceSession(model)
    with mp.record_calls() as recorded:
        outputs = session.run(list(expected), feed)
    assert len(recorded) == calls
    is_exact = ARITHMETIC.isdisjoint(node.op_type for node in called_nodes(model))
    for got, wanted in zip(outputs, expected.values(), strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        if is_exact or wanted.dtype.kind != "f":
            np.testing.assert_array_equal(got, wanted)
        else:
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_declared_shapes() -> None:
    """Sizes that an exporter declares for an output are PyTorch's, but for those that are known to be wrong."""
    wrong = {}
    for name in NAMES:
        model, _, expected = load(name)
        for value in model.graph.output:
            dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            true = list(expected[value.name].shape)
            if any(size not in {0, true_size} for size, true_size in zip(dims, true, strict=True)):
                wrong[name] = (dims, true)
    assert wrong == WRONGLY_DECLARED


def test_the_table_is_the_folder() -> None:
    """Each file is in the table once, beside its arrays, and nothing else is there; both exporters wrote many."""
    assert sorted(set(NAMES)) == NAMES
    assert {path.name for path in EXPORTS.iterdir()} == {
        f"{name}{kind}" for name in NAMES for kind in (".onnx", ".npz")
    }
    exporters: Counter[str] = Counter()
    for name in NAMES:
        model = load(name)[0]
        _, exporter, opset = name.rpartition("_")[2].partition("torchscript" if "torchscript" in name else "dynamo")
        assert [entry.version for entry in model.opset_import if not entry.domain] == [int(opset)]
        assert model.producer_name == "pytorch"
        exporters[exporter] += 1
    assert exporters["torchscript"] >= 40
    assert exporters["dynamo"] >= 35


def test_what_the_folder_covers() -> None:
    """Bodies of each kind, functions whose attributes are their callers', Indices, and every element type are there."""
    kinds: Counter[str] = Counter()
    for name in NAMES:
        model, feed, _ = load(name)
        kinds.update({node.op_type for node in called_nodes(model)})
        kinds.update({str(array.dtype) for array in feed.values()})
        kinds["function"] += bool(model.functions)
        pools = [node for node in called_nodes(model) if is_standard_maxpool(node)]
        kinds["Indices"] += any(len(pool.output) == 2 for pool in pools)
        kinds["reference"] += any(attribute.ref_attr_name for pool in pools for attribute in pool.attribute)
    covered = {"If", "Loop", "Scan", "Conv", "function", "Indices", "reference"}
    assert {kind for kind in covered if not kinds[kind]} == set()
    assert {name for name in ("float16", "float32", "float64", "int8", "uint8") if not kinds[name]} == set()


def test_files_are_small_and_tell_nothing_of_a_machine() -> None:
    """All files together are below 250 KiB, and none holds a path; the script looks for more."""
    files = {path.name: path.read_bytes() for path in EXPORTS.iterdir()}
    assert sum(map(len, files.values())) < 250 * 1024
    places = [b"/home/", b"/Users/", b"site-packages", b'File "', b"stack_trace"]
    assert [name for name, data in files.items() if any(place in data for place in places)] == []
