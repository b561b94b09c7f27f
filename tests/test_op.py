"""The border to onnxruntime-extensions: registration, failures, and the facts that its workarounds rest on."""

import importlib
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime_extensions import Opdef, PyOp
import pytest
from subprocesses import printed, run_python

import maxpool_ort as mp
from maxpool_ort import op, schema

X = np.arange(12, dtype=np.float32).reshape(1, 1, 12)


def converted(**arguments: Any) -> bytes:
    """A converted model of one MaxPool, serialized."""
    return mp.convert_model(mp.make_maxpool_model(**arguments)).model.SerializeToString()


def our_registrations() -> list[tuple[str, int, int]]:
    """(op type, input element type, number of outputs) of everything registered in our domain."""
    native = [o._nativedef for o in Opdef._odlist.values() if o.op_type.startswith(f"{schema.DOMAIN}::")]  # noqa: SLF001
    return sorted((n.op_type, n.input_types[0], len(n.output_types)) for n in native)


def test_each_dtype_is_registered_once_for_each_number_of_outputs() -> None:
    """Four dtypes, with and without Indices, however often register is called, also after a reload."""
    types = sorted([PyOp.dt_float, PyOp.dt_double, PyOp.dt_int8, PyOp.dt_uint8])
    expected = [("maxpool_ort::MaxPool", t, 1) for t in types]
    expected += [("maxpool_ort::MaxPoolWithIndices", t, 2) for t in types]
    options = onnxruntime.SessionOptions()
    for _ in range(3):
        mp.register(options)
        mp.register(onnxruntime.SessionOptions())
    importlib.reload(op)
    op.register(options)
    assert our_registrations() == expected
    session = onnxruntime.InferenceSession(converted(kernel_shape=[3], input_shape=[1, 1, 12]), options)
    assert session.run(None, {"X": X})[0].ravel().tolist() == [float(i) for i in range(2, 12)]


def test_one_session_options_serves_several_sessions() -> None:
    """Plain sessions and ours, made with the same options, run side by side."""
    options = onnxruntime.SessionOptions()
    mp.register(options)
    first = onnxruntime.InferenceSession(converted(kernel_shape=[3], input_shape=[1, 1, 12]), options)
    second = mp.InferenceSession(mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 12], strides=[2]), options)
    assert first.run(None, {"X": X})[0].shape == (1, 1, 10)
    assert second.run(None, {"X": X})[0].shape == (1, 1, 6)


def test_register_takes_session_options_only() -> None:
    """Anything else is refused with what was expected."""
    with pytest.raises(TypeError, match=r"expected onnxruntime.SessionOptions, got str"):
        mp.register("options")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8"])
@pytest.mark.parametrize("with_indices", [False, True])
def test_outputs_are_exact_arrays(dtype: str, *, with_indices: bool) -> None:
    """Outputs of any size arrive whole, with their dtype; lists of Python objects would take minutes for these."""
    x = np.random.default_rng(0).integers(0, 100, (2, 3, 512, 512)).astype(dtype)
    model = mp.make_maxpool_model(kernel_shape=[2, 2], input_shape=x.shape, dtype=dtype, with_indices=with_indices)
    outputs = mp.InferenceSession(model).run(None, {"X": x})
    y, indices = mp.max_pool(x, [2, 2], return_indices=True)
    for got, expected in zip(outputs, [y, indices], strict=False):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
    assert len(outputs) == 1 + with_indices


def test_outputs_do_not_become_lists() -> None:
    """What PyOp asks for as ``r.flatten().tolist()`` is the array itself, and for everyone else it stays an array."""
    y = np.zeros((2, 3), np.float32)
    handed = y.view(op._Output).flatten().tolist()  # noqa: SLF001
    assert type(handed) is np.ndarray
    assert np.shares_memory(handed, y)
    assert isinstance(y.view(op._Output), np.ndarray)  # noqa: SLF001


def test_pyop_still_asks_for_flatten_and_tolist() -> None:
    """Upstream's way of taking outputs is what our workaround hooks into; if it changes, this fails first."""
    asked = []

    class Output(np.ndarray):
        def flatten(self, order: str = "C") -> np.ndarray:  # noqa: ARG002
            asked.append("flatten")
            return self

        def tolist(self) -> np.ndarray:
            asked.append("tolist")
            return self.view(np.ndarray)

    from onnxruntime_extensions._ocos import _on_pyop_invocation  # noqa: PLC0415

    opdef = next(o for o in Opdef._odlist.values() if o.op_type == "maxpool_ort::MaxPool")  # noqa: SLF001
    body, opdef.body = opdef.body, lambda *_, **__: np.ones((2, 3), np.float32).view(Output)
    try:
        identity, shape, data = _on_pyop_invocation(id(opdef), [X], {})
    finally:
        opdef.body = body
    assert (identity, shape, type(data), asked) == (id(opdef), (2, 3), np.ndarray, ["flatten", "tolist"])


def test_pyop_still_ends_the_process_on_an_exception() -> None:
    """Our bodies must not raise because of this; if upstream survives it one day, the guard can go."""
    code = """
        import numpy as np, onnxruntime, maxpool_ort as mp
        from onnxruntime_extensions import Opdef
        options = onnxruntime.SessionOptions()
        mp.register(options)
        opdef = next(o for o in Opdef._odlist.values() if o.op_type == "maxpool_ort::MaxPool")
        def body(x, **_):
            raise ValueError("leaves the body")
        opdef.body = body
        model = mp.convert_model(mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4])).model
        # The first registration is that of float32.
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        session.run(None, {"X": np.zeros((1, 1, 4), np.float32)})
    """
    result = run_python(code)
    assert result.returncode == -6
    assert "leaves the body" in result.stderr


FAILURES = """
    import sys
    import numpy as np, onnxruntime, maxpool_ort as mp
    from maxpool_ort import op
    onnxruntime.set_default_logger_severity(4)
    which, guarded = sys.argv[1], sys.argv[2] == "guarded"
    shape = [1, 1, "L"] if guarded else [1, 1, 4]
    model = mp.make_maxpool_model(kernel_shape=[2], input_shape=shape, with_indices=True, name="pool1")
    good = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    session = mp.InferenceSession(model)
    assert session.run(None, {"X": good})[0].ravel().tolist() == [1, 2, 3]
    real = op._prepared
    def fail(*_, **__):
        raise {"bug": ZeroDivisionError("a bug"), "memory": MemoryError("none left"), "exit": SystemExit(3),
               "interrupt": KeyboardInterrupt()}[which]
    op._prepared = fail
    try:
        session.run(None, {"X": good})
    except BaseException as error:
        print(type(error).__name__, error)
    op._prepared = real
    assert session.run(None, {"X": good})[0].ravel().tolist() == [1, 2, 3]
"""
AT_POOL1 = (
    "(X: float32 (1, 1, 4); kernel_shape=2;dilations=1;pads=0,0;strides=1;ceil_mode=0;storage_order=0;auto_pad=NOTSET)"
)


@pytest.mark.parametrize("guarded", ["guarded", "not guarded"])
@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ("bug", f"MaxPoolError MaxPool 'pool1': ZeroDivisionError: a bug {AT_POOL1}"),
        ("memory", f"MaxPoolError MaxPool 'pool1': MemoryError: none left {AT_POOL1}"),
        ("exit", "SystemExit 3"),
        ("interrupt", "KeyboardInterrupt"),
    ],
)
def test_whatever_a_body_raises_comes_out_of_run(which: str, expected: str, guarded: str) -> None:
    """No exception in a body ends the process; run raises it, and the next run is right."""
    assert printed(FAILURES, which, guarded) == expected


def test_a_plain_session_refuses_a_failed_result() -> None:
    """In onnxruntime's own session the guard behind the node raises, and names the node's tensor."""
    code = """
        import numpy as np, onnxruntime, maxpool_ort as mp
        onnxruntime.set_default_logger_severity(4)
        options = onnxruntime.SessionOptions()
        mp.register(options)
        model = mp.convert_model(mp.make_maxpool_model(kernel_shape=[3], input_shape=[1, 1, "L"])).model
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        try:
            session.run(None, {"X": np.zeros((1, 1, 1), np.float32)})
        except Exception as error:
            print(type(error).__module__.split(".")[0], "maxpool_ort/Y/guard" in str(error))
        print(session.run(None, {"X": np.zeros((1, 1, 3), np.float32)})[0].shape)
    """
    assert printed(code).splitlines() == ["onnxruntime True", "(1, 1, 1)"]


def test_a_failure_in_a_plain_session_does_not_reach_ours() -> None:
    """What another session left behind on the same thread is not raised by the next run of ours."""
    options = onnxruntime.SessionOptions()
    mp.register(options)
    model = mp.make_maxpool_model(kernel_shape=[3], input_shape=[1, 1, "L"])
    plain = onnxruntime.InferenceSession(mp.convert_model(model).model.SerializeToString(), options)
    session = mp.InferenceSession(model)
    with pytest.raises(Exception, match="maxpool_ort/Y/guard"):
        plain.run(None, {"X": X[..., :1]})
    assert session.run(None, {"X": X})[0].shape == (1, 1, 10)
    with pytest.raises(Exception, match="maxpool_ort/Y/guard"):
        plain.run(None, {"X": X[..., :1]})
    with pytest.raises(Exception, match="Invalid rank for input: X"):
        session.run(None, {"X": X[0]})


def test_record_calls_nests() -> None:
    """Each open context collects the calls made while it is open."""
    session = mp.InferenceSession(mp.make_maxpool_model(kernel_shape=[3], input_shape=[1, 1, 12], name="pool1"))
    with mp.record_calls() as outer:
        session.run(None, {"X": X})
        with mp.record_calls() as inner:
            session.run(None, {"X": X})
    session.run(None, {"X": X})
    assert (len(outer), len(inner)) == (2, 1)
    call = outer[0]
    assert (call.node, call.dtype, call.input_shape, call.output_shape) == (
        "MaxPool 'pool1'", "float32", (1, 1, 12), (1, 1, 10),
    )  # fmt: skip
    assert call.seconds > 0
