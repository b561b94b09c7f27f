"""What inspect says about the built-in operator, held against the built-in operator itself."""

from hypothesis import assume, given, settings
import numpy as np
import onnx
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, RuntimeException
from oracle import max_pool_oracle
import pytest
from strategies import Case, cases

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


@pytest.mark.parametrize("with_indices", [False, True])
@settings(max_examples=700)
@given(case=cases())
def test_reasons_are_exact(case: Case, *, with_indices: bool) -> None:
    """Where a reason is given the built-in differs or refuses, and where none is given it agrees."""
    assume(case.x.size)
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
    if not any(reason.startswith("SAME") for reason in definite):  # other windows may have the same maximum by chance
        assert agrees == (not definite), definite


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
        ("may fail: SAME with a stride beyond the kernel",),
    ),
    (
        "VALID with ceil_mode",
        {"kernel_shape": [2], "strides": [2], "auto_pad": "VALID", "ceil_mode": 1},
        None,
        ("may give one output too many: VALID with ceil_mode",),
    ),
    ("large pads", {"kernel_shape": [2], "pads": [2, 0]}, None, ("refuses pads >= kernel_shape",)),
    ("rank", {"kernel_shape": [1] * 4}, None, ("fails: more than 3 spatial axes",)),
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
                else_branch = b () => (double[1, 1, M] q) { q = MaxPool <kernel_shape = [3]> (x) }
            >
        }
    """)
    for which, ours in ((model, False), (mp.convert_model(model).model, True)):
        reports = inspect_model(which)
        assert [(r.node, r.where, r.version, r.element_type, r.true_dims, r.runs_ours) for r in reports] == [
            ("MaxPool 'pool1'", "graph 'main', then_branch of If 'choose'", 12, "double", (1, 1, 4), ours),
            ("MaxPool with output 'q'", "graph 'main', else_branch of If 'choose'", 12, "double", (1, 1, 3), ours),
        ]
