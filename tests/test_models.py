"""models/: every file is what its script builds, what its README says, and what runs right."""

import importlib.util
from pathlib import Path
import re
import shutil
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto, helper
import onnxruntime
from oracle import assert_same, max_pool_oracle
import pytest

import maxpool_ort as mp

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "models"
README = (MODELS / "README.md").read_text()
ONNX_FILES = sorted(path.name for path in MODELS.glob("*.onnx"))

# values that try a maximum: ties, extremes, NaN, infinities, both zeros
FLOATS = [-np.inf, -2.5, -1, -0.0, 0.0, 0.25, 1, 1, 7, 7, np.inf, np.nan]
SIZE_OF_SYMBOL = {"N": 2, "C": 3, "D1": 9, "D2": 11}

# (id, a file and its new content or None for none, what --check says)
DAMAGES = [
    ("a model is missing", ("maxpool_1d.onnx", None), "maxpool_1d.onnx: missing"),
    ("a model was changed", ("maxpool_2d.onnx", b"changed"), "maxpool_2d.onnx: differs from what is built"),
    ("a sample was changed", ("maxpool_indices.npz", b"changed"), "maxpool_indices.npz: differs from what is built"),
    ("a model too many", ("maxpool_old.onnx", b"old"), "maxpool_old.onnx: not built by this script"),
    ("the trained model is missing", ("digits.onnx", None), "digits.onnx: missing"),
    ("the trained model is damaged", ("digits.onnx", b"damaged"), "digits.onnx: does not load: "),
    ("the held-out images are damaged", ("digits.npz", b"damaged"), "digits.npz: does not load: "),
]


def load_script() -> ModuleType:
    """Import scripts/build_models.py by its path: scripts are no package."""
    spec = importlib.util.spec_from_file_location("build_models", ROOT / "scripts" / "build_models.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


SCRIPT = load_script()
FEATURES = [pytest.param(feature, id=feature.name) for feature in SCRIPT.FEATURES]


def load(name: str) -> onnx.ModelProto:
    """Read one file of models/."""
    return onnx.load(MODELS / name)


def attributes_of(model: onnx.ModelProto) -> dict[str, Any]:
    """The attributes of a single-op model as the oracle takes them, read without the package."""
    (node,) = model.graph.node
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def dtype_of(tensor: ValueInfoProto) -> np.dtype[Any]:
    """The dtype that a graph declares for one of its inputs or outputs."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(tensor.type.tensor_type.elem_type))


def dims_of(tensor: ValueInfoProto) -> list[int | str]:
    """The dimensions that a graph declares; those that it does not know are '?'."""
    dims = tensor.type.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims]


def seeded_input(model: onnx.ModelProto) -> np.ndarray:
    """X for a single-op model, full of ties and extremes; the same at every call."""
    (x,) = model.graph.input
    dtype = dtype_of(x)
    shape = [SIZE_OF_SYMBOL[dim] if isinstance(dim, str) else dim for dim in dims_of(x)]
    if dtype.kind == "f":
        values = np.array(FLOATS, dtype)
    else:
        limits = np.iinfo(dtype)
        values = np.array([limits.min, limits.min + 1, 0, 1, 7, limits.max - 1, limits.max], dtype)
    return np.random.default_rng(12).choice(values, shape)


def check_against_oracle(model: onnx.ModelProto, x: np.ndarray) -> None:
    """Run a single-op model, in our operator, and hold each of its outputs against the oracle's."""
    session = mp.InferenceSession(model)
    with mp.record_calls() as calls:
        outputs = session.run(None, {"X": x})
    assert [call.node for call in calls] == [f"MaxPool {model.graph.node[0].name!r}"]
    expected = max_pool_oracle(x, **attributes_of(model))
    assert [output.name for output in model.graph.output] == ["Y", "Indices"][: len(outputs)]
    for name, got, right in zip(["Y", "Indices"], outputs, expected, strict=False):
        assert_same(got, right, f"{name} of {model.graph.name}")


def readme_row(model: onnx.ModelProto) -> str:
    """The row of models/README.md for a single-op model."""
    (node,) = model.graph.node
    attributes = {name: np.ravel(value).tolist() for name, value in attributes_of(model).items()}
    written = " ".join(f"{name}={','.join(map(str, values))}" for name, values in attributes.items())
    tensors = [
        f"{tensor.name}: {dtype_of(tensor)} {' x '.join(map(str, dims_of(tensor)))}"
        for tensor in (*model.graph.input, *model.graph.output)
    ]
    cells = [f"`{node.name}.onnx`", model.doc_string, f"`{written}`", tensors[0], "; ".join(tensors[1:])]
    return f"| {' | '.join(cells)} |"


# every file


@pytest.mark.parametrize("name", ONNX_FILES)
def test_is_valid_and_of_opset_12(name: str) -> None:
    """Each model passes onnx's full check and imports version 12 of ONNX's operators, and no others."""
    model = load(name)
    onnx.checker.check_model(model, full_check=True)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 12)]


def test_readme_names_every_file_and_no_other() -> None:
    """Each model and each sample beside it has a row, and each row has its file."""
    rows = re.findall(r"^\| `([^`]+)` \|", README, re.MULTILINE)
    assert sorted(rows) == sorted(path.name for path in MODELS.iterdir() if path.is_file() and path.name != "README.md")


def test_readme_is_right_about_the_trained_model() -> None:
    """The accuracy, license and citation in README are those that the model carries."""
    metadata = {entry.key: entry.value for entry in load("digits.onnx").metadata_props}
    assert metadata["held_out_accuracy"] == "0.9889 (445 of 450)"
    assert "98.89 % (445 of 450)" in README
    assert metadata["data_license"] in README
    assert metadata["data_citation"] in README


# the models of one MaxPool node


def test_files_are_what_the_script_builds() -> None:
    """Each file that the script names is there, byte for byte, and there is no other but the trained model's."""
    built = SCRIPT.build()
    got = {path.name: path.read_bytes() for path in MODELS.iterdir() if path.suffix in {".onnx", ".npz"}}
    assert sorted(got) == sorted([*built, "digits.onnx", "digits.npz"])
    assert [name for name, data in built.items() if got[name] != data] == []


@pytest.mark.parametrize("feature", FEATURES)
def test_readme_row_says_what_the_model_is(feature: Any) -> None:
    """README's row has the model's attributes, inputs and outputs, and the table's description."""
    model = load(f"{feature.name}.onnx")
    assert model.doc_string == feature.description
    assert readme_row(model) in README


@pytest.mark.parametrize("feature", FEATURES)
def test_is_a_hard_case(feature: Any) -> None:
    """N, C > 1 and no two spatial axes alike, so that wrong strides and offsets show."""
    n, c, *spatial = dims_of(load(f"{feature.name}.onnx").graph.input[0])
    assert n != 1
    assert c != 1
    assert len(set(spatial)) == len(spatial)


def test_the_models_cover_the_operator() -> None:
    """Together they have each attribute, each auto_pad, each dtype, 1 to 3 spatial axes, and both outputs."""
    models = [load(f"{feature.name}.onnx") for feature in SCRIPT.FEATURES]
    attributes = [attributes_of(model) for model in models]
    assert {name for given in attributes for name in given} == set(onnx.defs.get_schema("MaxPool", 12).attributes)
    assert {given["auto_pad"] for given in attributes if "auto_pad" in given} == set(mp.AutoPad.__members__)
    assert {len(given["kernel_shape"]) for given in attributes} == {1, 2, 3}
    assert {model.graph.input[0].type.tensor_type.elem_type for model in models} == {
        TensorProto.FLOAT16,
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.INT8,
        TensorProto.UINT8,
    }
    assert {len(model.graph.output) for model in models} == {1, 2}


@pytest.mark.parametrize("feature", FEATURES)
def test_runs_as_the_oracle_says(feature: Any) -> None:
    """On ties, extremes, NaN and infinities, all outputs are the oracle's in values and dtype."""
    model = load(f"{feature.name}.onnx")
    check_against_oracle(model, seeded_input(model))


@pytest.mark.parametrize("feature", [row for row in FEATURES if row.values[0].sample_shape])
def test_sample_fits_its_model(feature: Any) -> None:
    """The sample beside a model is an X that the model takes, has ties, and gives what the oracle says."""
    model = load(f"{feature.name}.onnx")
    with np.load(MODELS / f"{feature.name}.npz") as arrays:
        assert arrays.files == ["X"]
        x = arrays["X"]
    assert x.shape == feature.sample_shape
    assert x.dtype == dtype_of(model.graph.input[0])
    assert len(np.unique(x)) < x.size
    check_against_oracle(model, x)


def test_the_two_storage_orders_differ_in_indices_only() -> None:
    """Row-major and column-major Indices of one X are two numberings of the same elements."""
    x = SCRIPT.make_sample((2, 3, 7, 5))
    y, row_major = mp.InferenceSession(load("maxpool_indices.onnx")).run(None, {"X": x})
    same_y, column_major = mp.InferenceSession(load("maxpool_indices_column_major.onnx")).run(None, {"X": x})
    assert_same(same_y, y)
    assert_same(x.ravel()[row_major], y)
    assert_same(x.swapaxes(2, 3).ravel()[column_major], y)
    assert (row_major != column_major).any()


# the trained model


def test_digits_are_read() -> None:
    """At least 97 % of the held-out images are classified right, and both pools ran in our operator, once each."""
    session = mp.InferenceSession(MODELS / "digits.onnx")
    with np.load(MODELS / "digits.npz") as held_out:
        image, label = held_out["image"], held_out["label"]
    with mp.record_calls() as calls:
        (probabilities,) = session.run(["probabilities"], {"image": image})
    assert (len(image), len(label)) == (450, 450)
    assert (probabilities.argmax(axis=1) == label).mean() >= 0.97
    assert [(call.node, call.dtype, call.input_shape, call.output_shape) for call in calls] == [
        ("MaxPool 'pool1'", "float32", (450, 16, 8, 8), (450, 16, 4, 4)),
        ("MaxPool 'pool2'", "float32", (450, 32, 4, 4), (450, 32, 2, 2)),
    ]
    assert len(session.converted) == 2
    assert session.skipped == ()


def test_digits_have_the_probabilities_of_onnxruntime() -> None:
    """They are within 1e-6: around its own MaxPool, ONNX Runtime may choose another layout, and so another rounding."""
    with np.load(MODELS / "digits.npz") as held_out:
        image = held_out["image"]
    (ours,) = mp.InferenceSession(MODELS / "digits.onnx").run(None, {"image": image})
    (theirs,) = onnxruntime.InferenceSession(MODELS / "digits.onnx").run(None, {"image": image})
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


# the script


def test_check_passes_on_models(capsys: pytest.CaptureFixture[str]) -> None:
    """--check exits with 0 on models/ as it is, and says so."""
    assert SCRIPT.main(["--check"]) == 0
    assert capsys.readouterr().out == f"{MODELS}: all as built; digits.npz and digits.onnx load\n"


@pytest.mark.parametrize(("change", "line"), [row[1:] for row in DAMAGES], ids=[row[0] for row in DAMAGES])
def test_check_lists_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, bytes | None], line: str
) -> None:
    """--check exits with 1 and names each file that is missing, changed, damaged or too many, and writes nothing."""
    folder = tmp_path / "models"
    shutil.copytree(MODELS, folder)
    name, data = change
    if data is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(data)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert SCRIPT.main(["--check", "--out", str(folder)]) == 1
    (printed,) = capsys.readouterr().out.splitlines()
    assert printed.startswith(line)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_writes_what_it_builds_and_says_what_it_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A first run writes every file, a second one none, and both name the trained model as left."""
    folder = tmp_path / "new" / "models"
    left = [f"left: {folder / name}: missing; --train makes it anew" for name in ("digits.npz", "digits.onnx")]
    for verb in ("wrote", "same already"):
        assert SCRIPT.main(["--out", str(folder)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split(":")[0] for line in lines[:-2]] == [verb] * len(SCRIPT.build())
        assert lines[-2:] == left
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == SCRIPT.build()


def test_train_says_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without torch, --train exits with 1, leaves the trained model alone, and says why."""
    monkeypatch.setattr(SCRIPT, "find_spec", lambda name: None if name == "torch" else object())
    assert SCRIPT.main(["--train", "--out", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()[-2:]
    for line, name in zip(lines, ("digits.npz", "digits.onnx"), strict=True):
        assert line.startswith(f"left: {tmp_path / name}: this Python has no torch; see the head of ")
    assert not (tmp_path / "digits.onnx").exists()
