"""What inspect says about the built-in operator, held against the built-in operator itself."""

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
import numpy as np
import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, RuntimeException
from oracle import max_pool_oracle
import pytest
from strategies import Case, cases
from versions import describes_ort

import maxpool_ort as mp
from maxpool_ort.inspection import differences, inspect_model

ORT_ERRORS = (Fail, InvalidArgument, InvalidGraph, RuntimeException)
TYPE_NAMES = {"float16": "float16", "float32": "float", "float64": "double", "int8": "int8", "uint8": "uint8"}


def built_in(case: Case, *, with_indices: bool) -> list[np.ndarray] | None:
    """ONNX Runtime's own answer; None if it refuses the model or fails at the run."""
    shape = [None] * case.x.ndim
    model = mp.make_maxpool_model(**case.attributes, input_shape=shape, dtype=case.x.dtype, with_indices=with_indices)
    try:
        return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"X": case.x})
    except ORT_ERRORS:
        return None


@describes_ort
@pytest.mark.parametrize("with_indices", [False, True])
@settings(max_examples=700)
@given(case=cases())
def test_reasons_are_exact(case: Case, *, with_indices: bool) -> None:
    """Where a reason is given the built-in differs or refuses, and where none is given it agrees."""
    reasons = list(
        differences(
            mp.MaxPoolAttributes(**case.attributes),
            TYPE_NAMES[str(case.x.dtype)],
            case.x.shape,
            with_indices=with_indices,
        )
    )
    definite = [reason for reason in reasons if not reason.startswith("may")]
    # No NaN and no infinities: what the built-in loses is a reason of its own. All values differ, so windows show.
    x = np.random.default_rng(0).permutation(case.x.size).astype(case.x.dtype).reshape(case.x.shape)
    theirs = built_in(Case(x, case.attributes), with_indices=with_indices)
    expected = max_pool_oracle(x, **case.attributes)
    agrees = theirs is not None and all(map(np.array_equal, theirs, expected))
    assert agrees or definite
    if not any("other windows" in reason for reason in definite):  # they may have the same maximum by chance
        assert agrees == (not definite), definite


@describes_ort
@pytest.mark.parametrize("with_indices", [False, True])
@settings(max_examples=700)
@example(
    case=Case(
        np.zeros((1, 1, 1, 2), np.float16),
        {"kernel_shape": (2, 2), "auto_pad": "SAME_LOWER", "dilations": (2, 1), "strides": (2, 1)},
    )
)
@example(case=Case(np.zeros((1, 1, 2, 1), np.float32), {"kernel_shape": (2, 1), "pads": (0, 0, 1, 0)}))
@given(case=cases())
def test_losses_are_exact(case: Case, *, with_indices: bool) -> None:
    """NaN and -inf are said to be lost where the built-in loses them, and nowhere else."""
    assume(case.x.size and case.x.dtype.kind == "f")
    attributes = mp.MaxPoolAttributes(**case.attributes)
    plane = np.random.default_rng(0).permutation(case.x[0, 0].size).astype(case.x.dtype).reshape(case.x.shape[2:])
    nan = np.tile(plane, (plane.size, 1, *[1] * plane.ndim))  # one NaN in each plane, each time elsewhere
    nan.reshape(plane.size, -1)[np.diag_indices(plane.size)] = np.nan
    lowest = np.full_like(nan, -np.inf)
    name = TYPE_NAMES[str(nan.dtype)]
    reasons = list(differences(attributes, name, nan.shape, with_indices=with_indices))
    losses = [reason for reason in reasons if reason.startswith("may lose")]
    assume(reasons == losses)  # for else outputs differ anyway

    def is_lost(x: np.ndarray) -> bool:
        theirs = built_in(Case(x, case.attributes), with_indices=with_indices)
        assert theirs is not None
        return not np.array_equal(theirs[0], mp.max_pool(x, **case.attributes), equal_nan=True)

    said = {word for word in ("NaN", "-inf") for reason in losses if word in reason}
    lost = {word for word, x in (("NaN", nan), ("-inf", lowest)) if is_lost(x)}
    if all(axis.kernel == 1 or axis.input == 1 for axis in attributes.geometry(nan.shape).axes):
        assert lost <= said  # windows of one element: the vectorized path loses a NaN in some lanes of a row only
    else:
        assert lost == said


# (id, element type, opset)
NO_KERNEL = [
    ("double before version 8", "double", 7),
    ("float16 before Cast-6", "float16", 5),
    ("bfloat16", "bfloat16", 22),
]


@pytest.mark.parametrize(("element_type", "opset"), [row[1:] for row in NO_KERNEL], ids=[row[0] for row in NO_KERNEL])
def test_element_types_without_a_kernel(element_type: str, opset: int) -> None:
    """Element types that an opset's MaxPool takes, and for which the built-in has nothing."""
    model = onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["": {opset}]>
        g ({element_type}[1, 1, 4] X) => ({element_type}[1, 1, 3] Y) {{ Y = MaxPool <kernel_shape = [2]> (X) }}
    """)
    with pytest.raises((*ORT_ERRORS, ort_errors.NotImplemented)):
        onnxruntime.InferenceSession(model.SerializeToString())
    (report,) = inspect_model(model)
    assert report.built_in_differs == (f"refuses the model: no MaxPool for {element_type} at opset {opset}",)


@settings(max_examples=300)
@given(case=cases(), with_indices=st.booleans())
def test_unknown_sizes_promise_what_known_ones_do(case: Case, *, with_indices: bool) -> None:
    """Where a size is unknown, "may" is said if and only if there is a size at which the built-in differs."""
    one = {
        name: value if np.ndim(value) == 0 else [value[0]] * (2 if name == "pads" else 1)
        for name, value in case.attributes.items()
    }
    attributes = mp.MaxPoolAttributes(**one)

    def definite(size: int) -> list[str]:
        try:
            reasons = list(differences(attributes, "float", (2, 1, size), with_indices=with_indices))
        except mp.InvalidShapeError:
            return []
        return [reason for reason in reasons if not reason.startswith("may")]

    unknown = [
        reason
        for reason in differences(attributes, "float", (2, 1, None), with_indices=with_indices)
        if not reason.startswith("may lose")
    ]
    assert bool(unknown) == any(definite(size) for size in range(1, 60)), unknown


# (id, attributes, input dims, reasons)
UNKNOWN_SHAPES = [
    ("nothing to say", {"kernel_shape": [2]}, ("N", 3, "L"), ()),
    (
        "dilated SAME",
        {"kernel_shape": [2], "dilations": [2], "auto_pad": "SAME_LOWER"},
        ("N", 3, None),
        ("may give another shape: SAME with dilations",),
    ),
    (
        "stride beyond the kernel",
        {"kernel_shape": [1], "strides": [3], "auto_pad": "SAME_UPPER"},
        None,
        ("may see other windows: SAME with a stride beyond the kernel",),
    ),
    (
        "VALID with ceil_mode",
        {"kernel_shape": [2], "strides": [2], "auto_pad": "VALID", "ceil_mode": 1},
        None,
        (
            "may give one output too many: VALID with ceil_mode",
            "may give 1 output instead of 0: X smaller than a window",
        ),
    ),
    ("large pads", {"kernel_shape": [2], "pads": [2, 0]}, None, ("refuses the model: pads >= kernel_shape",)),
    ("rank", {"kernel_shape": [1] * 4}, None, ("fails at the run: more than 3 spatial axes",)),
]


@pytest.mark.parametrize(
    ("attributes", "dims", "reasons"), [row[1:] for row in UNKNOWN_SHAPES], ids=[row[0] for row in UNKNOWN_SHAPES]
)
def test_unknown_shapes(attributes: dict, dims: tuple | None, reasons: tuple[str, ...]) -> None:
    """What is said where sizes are not known."""
    assert tuple(differences(mp.MaxPoolAttributes(**attributes), "int8", dims, with_indices=False)) == reasons


def test_nodes_at_any_depth() -> None:
    """Nodes in bodies of control flow are reported with where they stand, converted ones as ours."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        main (bool c, double[1, 1, 5] x) => (double[1, 1, M] y) {
            [choose] y = If (c) <
                then_branch = a () => (double[1, 1, M] p) { [pool1] p = MaxPool <kernel_shape = [2]> (x) },
                else_branch = b () => (double[1, 1, M] q) { [pool2] q = MaxPool <kernel_shape = [3]> (x) }
            >
        }
    """)
    for which, ours in ((model, False), (mp.convert_model(model).model, True)):
        reports = inspect_model(which)
        assert [(r.node, r.where, r.version, r.element_type, r.true_dims, r.runs_ours) for r in reports] == [
            ("MaxPool 'pool1'", "graph 'main', then_branch of If 'choose'", 12, "double", (1, 1, 4), ours),
            ("MaxPool 'pool2'", "graph 'main', else_branch of If 'choose'", 12, "double", (1, 1, 3), ours),
        ]


def test_nodes_of_functions() -> None:
    """Nodes in model-local functions are reported as each call sees them; where nothing calls, attributes may be unknown."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 13, "local": 1]>
        main (float[1, 1, 8] x) => (float[1, 1, M] y) { a = local.fixed(x)  [call1] y = local.free <k = [2]> (a) }
        <domain: "local", opset_import: ["": 11]>
        fixed (p) => (q) { [pool1] q = MaxPool <kernel_shape = [2]> (p) }
        <domain: "local", opset_import: ["": 13]>
        free <k> (p) => (q) { [pool2] q = MaxPool <kernel_shape: ints = @k> (p) }
        <domain: "local", opset_import: ["": 13]>
        idle <k> (p) => (q) { [pool3] q = MaxPool <kernel_shape: ints = @k> (p) }
    """)
    fixed, free, idle = inspect_model(model)
    assert (fixed.node, fixed.where, fixed.version, fixed.input_dims) == (
        "MaxPool 'pool1'", "function 'fixed', call with output 'a' in graph 'main'", 11, (1, 1, 8),
    )  # fmt: skip
    assert fixed.attributes == mp.MaxPoolAttributes(kernel_shape=[2])
    assert (free.node, free.version, free.attributes, free.true_dims) == (
        "MaxPool 'pool2'", 12, fixed.attributes, (1, 1, 6),
    )  # fmt: skip
    assert free.where == "function 'free', call 'call1' in graph 'main'"
    assert (idle.where, idle.attributes) == ("function 'idle', which nothing calls", None)
    assert idle.built_in_differs == ("may differ: the function's callers give the attributes",)
    converted = inspect_model(mp.convert_model(model).model)
    assert [(r.node, r.runs_ours) for r in converted] == [
        ("MaxPool 'pool1'", True), ("MaxPool 'pool2'", True), ("MaxPool 'pool3'", False),
    ]  # fmt: skip


def test_invalid_shapes_name_the_node() -> None:
    """A rank of X that does not fit is an error that says which node."""
    model = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4], name="pool1")
    model.graph.input[0].type.tensor_type.shape.dim.add().dim_value = 4
    with pytest.raises(mp.InvalidShapeError, match=r"MaxPool 'pool1': X must have rank 3 .* got rank 4"):
        inspect_model(model)


def test_long_axes_are_quick() -> None:
    """Inspection takes time by the outputs of an axis, whatever the kernel."""
    attributes = mp.MaxPoolAttributes(kernel_shape=[10_000])
    assert list(differences(attributes, "float", (1, 1, 100_000), with_indices=False)) == ["may lose NaN and -inf"]
