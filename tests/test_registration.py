"""Registration beside others: copies of the package, other people's operators, versions that lack or change something."""

from pathlib import Path
import shutil

import pytest
from subprocesses import printed

import maxpool_ort as mp

PACKAGE = Path(mp.__file__).parent
START = """
    import sys
    import numpy as np, onnxruntime, maxpool_ort as mp
    from onnxruntime_extensions import PyOp, get_library_path, onnx_op
    model = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4], strides=[2])
    feed = {"X": np.array([[[1, 3, 2, 5]]], np.float32)}
    def right(session):
        return session.run(None, feed)[0].ravel().tolist() == [3, 5]
    def theirs(domain):
        @onnx_op(op_type=f"{domain}::Twice", inputs=[PyOp.dt_float], outputs=[PyOp.dt_float])
        def twice(x):
            return 2 * x
"""
CHAIN = """
    from onnx.parser import parse_model
    def chain(domain):
        return parse_model(f'''<ir_version: 8, opset_import: ["": 13, "{domain}": 1]>
            main (float[1, 1, 4] X) => (float[1, 1, 2] Y) {{
                Z = {domain}.Twice (X)
                Y = MaxPool <kernel_shape = [2], strides = [2]> (Z) }}''')
"""


@pytest.mark.parametrize("first", ["theirs", "ours"])
@pytest.mark.parametrize("domain", ["ai.onnx.contrib", "somebody"])
def test_other_peoples_operators(first: str, domain: str) -> None:
    """Operators of others, in their own domain or the common one, before ours or after, in one graph with ours."""
    code = (
        START
        + CHAIN
        + """
    first, domain = sys.argv[1:]
    if first == "theirs":
        theirs(domain)
        mp.register(onnxruntime.SessionOptions())
    else:
        mp.register(onnxruntime.SessionOptions())
        theirs(domain)
    session = mp.InferenceSession(model)
    print(right(session), mp.InferenceSession(chain(domain)).run(None, feed)[0].ravel().tolist(), right(session))
    """
    )
    assert printed(code, first, domain) == "True [6.0, 10.0] True"


def test_the_extensions_own_operators() -> None:
    """An operator that onnxruntime-extensions itself has stands in one graph with ours."""
    code = (
        START
        + """
    from onnx.parser import parse_model
    text = parse_model('''<ir_version: 8, opset_import: ["": 13, "ai.onnx.contrib": 1]>
        main (string[N] S, float[1, 1, 4] X) => (string[M] T, float[1, 1, 2] Y) {
            T = ai.onnx.contrib.StringUpper (S)
            Y = MaxPool <kernel_shape = [2], strides = [2]> (X) }''')
    outputs = mp.InferenceSession(text).run(None, {**feed, "S": np.array(["abc"])})
    print(outputs[0].tolist(), outputs[1].ravel().tolist())
    """
    )
    assert printed(code) == "['ABC'] [3.0, 5.0]"


@pytest.mark.parametrize("when", ["before ours", "after ours"])
def test_options_that_have_the_library_already(when: str) -> None:
    """A session takes the library once: options that have it with ours run; with it twice, ours says what is wrong."""
    code = (
        START
        + """
    converted = mp.convert_model(model).model.SerializeToString()
    onnxruntime.set_default_logger_severity(4)
    if sys.argv[1] == "after ours":
        mp.register(onnxruntime.SessionOptions())
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(get_library_path())
    if sys.argv[1] == "after ours":
        print(right(onnxruntime.InferenceSession(converted, options)))
    try:
        mp.InferenceSession(model, options)
    except mp.MaxPoolError as error:
        print(error)
    print(right(mp.InferenceSession(model)))
    """
    )
    *before, said, after = printed(code, when).splitlines()
    assert (before, after) == (["True"] * (when == "after ours"), "True")
    assert said.startswith(
        "the SessionOptions had onnxruntime-extensions' library already, which a session takes once; make new"
    )


def test_two_copies(tmp_path: Path) -> None:
    """A second copy of the package, under another path, uses what the first has registered."""
    shutil.copytree(PACKAGE, tmp_path / "copy" / "maxpool_ort", ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        START
        + """
    session = mp.InferenceSession(model)
    first = mp.__file__
    for name in [name for name in sys.modules if name.split(".")[0] == "maxpool_ort"]:
        del sys.modules[name]
    sys.path.insert(0, sys.argv[1])
    import maxpool_ort as other
    assert other.__file__ != first
    print(right(other.InferenceSession(model)), right(session))
    try:
        other.InferenceSession(other.make_maxpool_model(kernel_shape=[3], input_shape=[1, 1, "L"])).run(
            None, {"X": np.zeros((1, 1, 1), np.float32)})
    except Exception as error:
        print(type(error).__name__)
    """
    )
    assert printed(code, str(tmp_path / "copy")).splitlines()[0] == "True True"


def test_without_the_extensions() -> None:
    """Arrays, attributes and conversion need no onnxruntime-extensions; a session says what is missing."""
    code = """
    import sys
    sys.modules["onnxruntime_extensions"] = None
    import numpy as np, maxpool_ort as mp
    x = np.array([[[1, 3, 2, 5]]], np.float32)
    print(mp.max_pool(x, [2], strides=[2]).tolist(), mp.MaxPoolAttributes(kernel_shape=[2]).output_shape((1, 1, 4)))
    model = mp.make_maxpool_model(kernel_shape=[2], input_shape=[1, 1, 4])
    print(mp.restore_model(mp.convert_model(model).model) == model)
    try:
        mp.InferenceSession(model)
    except ImportError as error:
        print(isinstance(error, mp.MissingDependencyError), error)
    """
    first, second, third = printed(code).splitlines()
    assert (first, second) == ("[[[3.0, 5.0]]] (1, 1, 3)", "True")
    assert third.startswith("True onnxruntime-extensions must be there to run in sessions, and cannot be imported: ")
    assert third.endswith("; pip install onnxruntime-extensions")


def test_another_way_to_take_outputs() -> None:
    """A version of PyOp that takes outputs otherwise gets plain arrays, which is said once; results are right."""
    code = (
        START
        + """
    import logging
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    import onnxruntime_extensions._ocos as ocos
    real = ocos._on_pyop_invocation
    def changed(k_id, feed, attributes):
        op = ocos.Opdef._odlist[k_id]
        y = op.body(*feed, **op.cast_attributes(attributes))
        return k_id, y.shape, list(map(float, np.nditer(y)))
    ocos._on_pyop_invocation = changed
    ocos.PyCustomOpDef.install_hooker(changed)
    session = mp.InferenceSession(model)
    print(right(session), right(session))
    """
    )
    assert printed(code).splitlines() == [
        "this version of onnxruntime-extensions takes outputs another way: it will be right, and slow", "True True",
    ]  # fmt: skip


def test_importing_changes_no_setting_of_others() -> None:
    """onnxruntime-extensions chooses protobuf's slow implementation for all child processes; here it is put back."""
    code = """
    import os
    os.environ.pop("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", None)
    before = dict(os.environ)
    import maxpool_ort
    print(dict(os.environ) == before)
    """
    assert printed(code) == "True"
