# /// script
# requires-python = ">=3.11"
# dependencies = ["torch==2.13.0", "onnxscript==0.7.2", "onnx==1.23.2", "numpy>=2"]
# ///
# ruff: noqa: D102 (forward is PyTorch's, and each module says what it does)
"""Write `tests/data/exports`: small modules as PyTorch's two exporters write them, with what PyTorch itself gives.

The files that lie there were made by torch 2.13.0+cpu with onnxscript 0.7.2 and onnx 1.23.2. Run from the repository
root, in an environment of its own (the package and its tests need no torch)::

    uv run scripts/build_exports.py                # reads the block above, or:
    pip install torch==2.13.0 onnxscript==0.7.2 onnx==1.23.2 && python scripts/build_exports.py

Each `NAME_EXPORTEROPSET.onnx` has a `.npz` beside it: sample inputs and expected outputs, named as in the graph. Exporters
are `torchscript` (dynamo=False) and `dynamo` (dynamo=True). Weights are inline. What the exporters write stays as it is but
for one thing: dynamo's `pkg.torch.onnx.stack_trace`, full of this machine's paths, is taken off every node.

The same versions give the same bytes, but for a few names in the files of `functions`: torchscript makes a local function
of whichever call it meets first, in the order of addresses.
"""

import argparse
from collections.abc import Callable, Iterator
import io
import logging
from pathlib import Path
import sys
import tempfile
from typing import Any, NamedTuple
import warnings
import zipfile

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.export import Dim
from torch.nn import functional

ROOT = Path(__file__).resolve().parents[1]
SEED = 0
STACK_TRACE = "pkg.torch.onnx.stack_trace"
PLACES = [
    "/home/",
    "/Users/",
    "site-packages",
    'File "',
    STACK_TRACE,
    tempfile.gettempdir(),
    str(Path.home()),
    str(ROOT),
    sys.prefix,
]
"""What no file may contain, since it tells of the machine."""


class Apply(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


class Unpool(nn.Module):
    """What was pooled is put back to where it came from."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2, return_indices=True)
        self.unpool = nn.MaxUnpool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        y, indices = self.pool(x)
        return self.unpool(y, indices)


class Spp(nn.Module):
    """Spatial pyramid pooling, as in YOLOv3-SPP and YOLOv5."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = nn.ModuleList([nn.MaxPool2d(size, stride=1, padding=size // 2) for size in (5, 9, 13)])

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, *(pool(x) for pool in self.pools)], 1)


class Sppf(nn.Module):
    """The same by one pool three times over, as in YOLOv5 and later."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(5, stride=1, padding=2)

    def forward(self, x: Tensor) -> Tensor:
        once = self.pool(x)
        twice = self.pool(once)
        return torch.cat([x, once, twice, self.pool(twice)], 1)


class Cnn(nn.Module):
    """conv, relu, pool, conv, pool, linear; images of 13 by 9."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 3, 3, padding=1)
        self.conv2 = nn.Conv2d(3, 4, 3, padding=1)
        self.linear = nn.Linear(4 * 3 * 2, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(self.conv2(x), 2)
        return self.linear(x.flatten(1))


class ScriptedIf(nn.Module):
    """Which pool it is depends on the values of x."""

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            y = functional.max_pool2d(x, [2, 3], ceil_mode=True)
        else:
            y = -functional.max_pool2d(-x, [2, 3], ceil_mode=True)
        return y


class ScriptedLoop(nn.Module):
    """What goes round shrinks; the exporter declares one size for it."""

    def forward(self, x: Tensor, count: int) -> Tensor:
        for _ in range(count):
            x = functional.max_pool2d(x, [3, 2], stride=[2, 1], padding=[1, 0])
        return x


class ScriptedLoopOfIf(nn.Module):
    """A pool in a branch in a loop."""

    def forward(self, x: Tensor, count: int) -> Tensor:
        for number in range(count):
            if number % 2 == 0:  # noqa: SIM108 (as one writes it)
                x = functional.max_pool2d(x, [3, 1], stride=1, padding=[1, 0])
            else:
                x = -x
        return x


class Block(nn.Module):
    """A residual pool of any size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(size, stride=1, padding=size // 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(x) + x


class Blocks(nn.Module):
    """Three residual pools; the third is the first again."""

    def __init__(self) -> None:
        super().__init__()
        self.small = Block(3)
        self.large = Block(5)

    def forward(self, x: Tensor) -> Tensor:
        return self.small(self.large(self.small(x)))


class ConvBlock(nn.Module):
    """conv, relu, pool."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 3, 3, padding=1)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(functional.relu(self.conv(x)))


class TwoTypes(nn.Module):
    """One pool, on two element types."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d((2, 3), stride=(1, 2))

    def forward(self, x: Tensor, half: Tensor) -> tuple[Tensor, Tensor]:
        return self.pool(x), self.pool(half)


def cond(x: Tensor) -> Tensor:
    """`ScriptedIf` as torch.export wants it."""
    return torch.cond(
        x.sum() > 0,
        lambda x: functional.max_pool2d(x, (2, 3), ceil_mode=True),
        lambda x: -functional.max_pool2d(-x, (2, 3), ceil_mode=True),
        (x,),
    )


def while_loop(x: Tensor, count: Tensor) -> Tensor:
    """Pool several times."""
    start = torch.zeros((), dtype=torch.int64)
    return torch.while_loop(
        lambda number, _: number < count,
        lambda number, x: (number + 1, functional.max_pool2d(x, 3, 1, 1)),
        (start, x),
    )[1]


def scan_images(x: Tensor) -> tuple[Tensor, Tensor]:
    """Pool image by image: (the greatest of all images, each)."""

    def step(greatest: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
        y = functional.max_pool2d(image, 3, 2, 1)
        return torch.maximum(greatest, y), y.clone()

    return scan(step, torch.full((2, 4, 3), -9.0), x)


def peaks(x: Tensor) -> tuple[Tensor, Tensor]:
    """Where x is the greatest of its neighbourhood, as detectors of points keep them: (x there, whether)."""
    is_peak = functional.max_pool2d(x, 3, stride=1, padding=1) == x
    return x * is_peak, is_peak


def ints(*shape: int) -> Tensor:
    """Integers from -9 to 9 as float32: many windows have ties."""
    return torch.randint(-9, 10, shape).float()


def floats(*shape: int) -> Tensor:
    """What is normally distributed, with NaN and both infinities."""
    x = torch.randn(shape)
    x.view(-1)[:3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    x.view(-1)[-7:-2] = -torch.inf
    return x


class Case(NamedTuple):
    """A module, what it is exported with, and by which exporters at which opsets."""

    name: str
    module: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    torchscript: tuple[int, ...] = ()
    dynamo: tuple[int, ...] = ()
    sample: Callable[[], tuple[Any, ...]] | None = None  # where it is not what the module is exported with
    torchscript_options: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    dynamo_options: dict[str, Any] = {}  # noqa: RUF012


N, H, W = (Dim(name, min=2) for name in "nhw")

CASES = [
    # the number of spatial axes, and MaxPool of every version. At opset 9, torchscript leaves ceil_mode=True out without a
    # word, and says "Unsupported: ONNX export of operator max_pool2d, dilation".
    Case("pool1d", lambda: nn.MaxPool1d(3, 2, 1), lambda: (floats(2, 3, 9),), (11,), (18,)),
    Case("pool2d", lambda: nn.MaxPool2d((3, 2), (2, 1), (1, 0)), lambda: (floats(2, 3, 7, 5),), (7, 9, 10, 12, 21), (12, 18, 22, 26)),
    Case("pool3d", lambda: nn.MaxPool3d((2, 3, 2), (2, 1, 1)), lambda: (floats(2, 2, 5, 4, 6),), (12,), (20,)),
    # (C, H, W). torchscript gives it to MaxPool as it is, which onnxruntime refuses: "Attribute dilations has incorrect size"
    Case("unbatched", lambda: nn.MaxPool2d(3, 2, 1, return_indices=True), lambda: (ints(3, 9, 7),), (), (18,)),
    # Indices: within a plane in PyTorch, over the whole of X in ONNX, so a MaxPool with a window of 1 makes what is subtracted
    Case("indices1d", lambda: nn.MaxPool1d(3, 2, return_indices=True), lambda: (ints(2, 3, 8),), (12,), (18,)),
    Case("indices2d", lambda: nn.MaxPool2d(3, 2, 1, return_indices=True), lambda: (ints(2, 3, 7, 5),), (11,), (18,)),
    Case("indices3d", lambda: nn.MaxPool3d(2, return_indices=True), lambda: (ints(2, 3, 4, 5, 6),), (12,), (20,)),
    Case("indices_all_attributes", lambda: nn.MaxPool2d((2, 3), (2, 1), (0, 1), (2, 1), return_indices=True, ceil_mode=True), lambda: (ints(2, 3, 8, 5),), (12,), (18,)),
    Case("indices_only", lambda: Apply(lambda x: functional.max_pool2d(x, 2, return_indices=True)[1]), lambda: (ints(2, 3, 6, 4),), (12,), (18,)),
    # of what was pooled. torchscript cannot: "cond must be a bool, but got a Tensor"
    Case("unpool", Unpool, lambda: (ints(2, 3, 6, 8),), (), (18,)),
    # ceil_mode: the last window hangs over the end; then it would start in the end pad, and is none (the shapes that
    # torchscript declares count it); then another pool follows. torchscript also folds that wrong size into the constants of
    # y.reshape(-1, y.shape[1] * ...), and nothing runs it: "cannot be reshaped to the requested shape".
    Case("ceil_mode", lambda: nn.MaxPool2d(3, 2, ceil_mode=True), lambda: (ints(2, 3, 8, 6),), (11,), (18,)),
    Case("ceil_mode_pad", lambda: nn.MaxPool2d(2, 2, 1, ceil_mode=True), lambda: (ints(2, 3, 7, 5),), (10, 12), (18, 22)),
    Case("ceil_mode_gap", lambda: nn.MaxPool2d(1, 2, ceil_mode=True), lambda: (ints(2, 3, 12, 8),), (12,), (18,)),
    Case("ceil_mode_chain", lambda: nn.Sequential(nn.MaxPool2d(2, 2, 1, ceil_mode=True), nn.MaxPool2d((2, 1), 1), nn.ReLU()), lambda: (ints(2, 3, 7, 5),), (12,), (18,)),
    # dilations
    Case("dilation", lambda: nn.MaxPool2d((3, 2), 1, (1, 0), (2, 3)), lambda: (ints(2, 3, 9, 8),), (12,), (18,)),
    # sizes that are known in the run only; the sample has others than the export
    Case(
        "dynamic", lambda: nn.Sequential(nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.MaxPool2d(2, 1)), lambda: (ints(2, 3, 12, 10),), (12,), (18,), lambda: (ints(3, 3, 9, 13),),
        {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": {"x": {0: "n", 2: "h", 3: "w"}}},
        {"input_names": ["x"], "output_names": ["y"], "dynamic_shapes": ({0: N, 2: H, 3: W},)},
    ),
    Case(
        "dynamic_indices", lambda: nn.MaxPool2d((2, 3), return_indices=True), lambda: (ints(2, 3, 12, 10),), (12,), (18,), lambda: (ints(3, 3, 9, 13),),
        {"input_names": ["x"], "output_names": ["y", "indices"], "dynamic_axes": {"x": [0, 2, 3]}},
        {"dynamic_shapes": ({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO},)},
    ),
    Case(
        "dynamic_batch", Cnn, lambda: (torch.randn(2, 1, 13, 9),), (11,), (20,), lambda: (torch.randn(3, 1, 13, 9),),
        {"input_names": ["image"], "output_names": ["logits"], "dynamic_axes": {"image": {0: "n"}, "logits": {0: "n"}}},
        {"dynamic_shapes": ({0: "n"},)},
    ),
    # element types. bfloat16 has come with MaxPool-22; NumPy has none, so the module casts.
    # Both exporters also write MaxPool of int32 and int64, of bfloat16 before opset 22 and of int8 before 12, which ONNX has
    # not: onnxruntime: "Type 'tensor(int32)' of input parameter (input) of operator (MaxPool) is invalid".
    Case("float64", lambda: nn.MaxPool2d(2), lambda: (floats(1, 2, 7, 9).double(),), (12,), (18,)),
    Case("int8", lambda: nn.MaxPool2d(2), lambda: (ints(1, 2, 7, 9).to(torch.int8),), (12,), (18,)),
    Case("uint8", lambda: nn.MaxPool2d(3, 2, 1), lambda: (ints(1, 2, 7, 9).abs().to(torch.uint8),), (12,), (18,)),
    Case("bfloat16", lambda: Apply(lambda x: functional.max_pool2d(x.bfloat16(), 3, 2, 1).float()), lambda: (floats(1, 2, 7, 9),), (), (22,)),
    # blocks of networks
    Case("spp", Spp, lambda: (ints(1, 2, 14, 15),), (12,), (18,)),
    Case("sppf_float16", Sppf, lambda: (floats(1, 2, 7, 9).half(),), (11,), (18,)),
    Case("peaks", lambda: Apply(peaks), lambda: (ints(1, 2, 7, 9),), (12,), (18,)),
    Case("cnn", Cnn, lambda: (torch.randn(2, 1, 13, 9),), (12,), (18,)),
    # adaptive pools that are plain ones. Sizes that do not divide: torchscript "output size that are not factor of input
    # size", dynamo "No decompositions registered". dynamo writes an output of 1 by 1 as ReduceMax.
    Case("adaptive1d", lambda: nn.AdaptiveMaxPool1d(3), lambda: (ints(2, 3, 9),), (12,), (18,)),
    Case("adaptive2d", lambda: nn.AdaptiveMaxPool2d((2, 3), return_indices=True), lambda: (ints(2, 3, 6, 9),), (12,), (18,)),
    Case("adaptive3d", lambda: nn.AdaptiveMaxPool3d((1, 2, 3)), lambda: (ints(2, 3, 2, 4, 6),), (11,), (18,)),
    Case("adaptive_global", lambda: nn.AdaptiveMaxPool2d(1), lambda: (ints(2, 3, 6, 9),), (12,), ()),
    # control flow. torchscript takes what torch.jit.script made ("Detected that you are using FX to torch.jit.trace" for
    # torch.cond), dynamo the opposite ("Exporting a ScriptModule is not supported"). The samples take different branches.
    Case("if", lambda: torch.jit.script(ScriptedIf()), lambda: (ints(1, 2, 6, 7).abs(),), (11, 13), ()),
    Case("loop", lambda: torch.jit.script(ScriptedLoop()), lambda: (ints(1, 2, 19, 8), 3), (11,), ()),
    Case("loop_of_if", lambda: torch.jit.script(ScriptedLoopOfIf()), lambda: (ints(1, 2, 9, 8), 3), (12,), ()),
    Case("cond", lambda: Apply(cond), lambda: (-ints(1, 2, 6, 7).abs(),), (), (18,)),
    Case("while_loop", lambda: Apply(while_loop), lambda: (ints(1, 2, 6, 7), torch.tensor(2)), (), (18,)),
    Case("scan", lambda: Apply(scan_images), lambda: (ints(3, 2, 7, 5),), (), (18,)),
    # modules as local functions (deprecated, from opset 15 on): the attributes of a MaxPool in one may be the function's.
    # dynamo makes functions too, of torch.cond and nested_compile_region, but torch.onnx.export inlines all of them, with
    # optimize=False as well: its conversion of versions begins with that.
    Case("functions", Blocks, lambda: (ints(1, 2, 9, 8),), (15,), (), None, {"export_modules_as_functions": True}),
    Case(
        "functions_dynamic", Blocks, lambda: (ints(1, 2, 9, 8),), (17,), (), lambda: (ints(2, 2, 7, 10),),
        {"export_modules_as_functions": {Block}, "input_names": ["x"], "dynamic_axes": {"x": [0, 2, 3]}},
    ),
    Case("functions_float16", Sppf, lambda: (floats(1, 2, 7, 9).half(),), (15,), (), None, {"export_modules_as_functions": {nn.MaxPool2d}}),
    Case("functions_two_types", TwoTypes, lambda: (floats(1, 2, 5, 6), floats(1, 2, 7, 5).half()), (16,), (), None, {"export_modules_as_functions": {nn.MaxPool2d}}),
    Case("functions_indices", lambda: nn.Sequential(nn.ReLU(), nn.MaxPool2d(3, 2, 1, return_indices=True)), lambda: (ints(2, 3, 9, 8),), (15,), (), None, {"export_modules_as_functions": {nn.MaxPool2d}}),
    Case("functions_cnn", lambda: nn.Sequential(ConvBlock(1), ConvBlock(3)), lambda: (torch.randn(2, 1, 13, 9),), (15,), (), None, {"export_modules_as_functions": {ConvBlock}}),
]  # fmt: skip


def all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Every node of the graph, of the functions, and of the bodies in both."""
    waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [inner for attribute in node.attribute for inner in attribute.g.node]


def export(case: Case, exporter: str, opset: int, module: nn.Module, inputs: tuple[Any, ...]) -> onnx.ModelProto:
    """Export a module by one of the exporters."""
    if exporter == "dynamo":
        options = {"verbose": False, **case.dynamo_options}
        program = torch.onnx.export(module, inputs, dynamo=True, opset_version=opset, **options)
        model = program.model_proto
    else:
        file = io.BytesIO()
        torch.onnx.export(module, inputs, file, dynamo=False, opset_version=opset, **case.torchscript_options)
        model = onnx.load_from_string(file.getvalue())
    for node in all_nodes(model):
        kept = [entry for entry in node.metadata_props if entry.key != STACK_TRACE]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    return model


def to_npz(arrays: dict[str, np.ndarray]) -> bytes:
    """Return a .npz file without time stamps; what `np.savez` writes varies with the Python version."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.save(member, array, allow_pickle=False)
            file.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue(), zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def build(case: Case, exporter: str, opset: int) -> tuple[bytes, bytes]:
    """Return the model and the arrays of one file."""
    torch.manual_seed(SEED)
    module = case.module().eval()
    inputs = case.inputs()
    sample = case.sample() if case.sample else inputs
    with torch.no_grad():
        outputs = module(*sample)
    model = export(case, exporter, opset, module, inputs)
    onnx.checker.check_model(model)
    imported = next(entry.version for entry in model.opset_import if not entry.domain)
    if imported != opset:
        raise ValueError(f"{case.name}: expected opset {opset}, got {imported} from {exporter}")
    if all(node.op_type != "MaxPool" for node in all_nodes(model)):
        raise ValueError(f"{case.name}: {exporter} at opset {opset} wrote no MaxPool")
    names = [value.name for value in (*model.graph.input, *model.graph.output)]
    values = [*sample, *(outputs if isinstance(outputs, tuple) else [outputs])]
    arrays = {name: torch.as_tensor(value).numpy() for name, value in zip(names, values, strict=True)}
    return model.SerializeToString(deterministic=True), to_npz(arrays)


def main() -> int:
    """Write what differs, and print each file and its size; exit 1 if other files lie in the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "tests" / "data" / "exports", help="the folder (default: %(default)s)"
    )
    folder = parser.parse_args().out
    warnings.simplefilter("ignore")  # the old exporter is deprecated, and says so at every export
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    written: set[str] = set()
    for case in CASES:
        for exporter, opsets in (("torchscript", case.torchscript), ("dynamo", case.dynamo)):
            for opset in opsets:
                name = f"{case.name}_{exporter}{opset}"
                for file, data in zip((f"{name}.onnx", f"{name}.npz"), build(case, exporter, opset), strict=True):
                    found = [place for place in PLACES if place.encode() in data]
                    if found:
                        raise ValueError(f"{file}: holds paths of this machine: {found}")
                    is_same = (folder / file).is_file() and (folder / file).read_bytes() == data
                    (folder / file).write_bytes(data)
                    written.add(file)
                    print(f"{'same already' if is_same else 'wrote'}: {file} ({len(data)} bytes)")
    print(
        f"{len(written)} files, {sum((folder / file).stat().st_size for file in written)} bytes, torch {torch.__version__}"
    )
    others = sorted(path.name for path in folder.iterdir() if path.name not in written)
    print("\n".join(f"not built by this script: {name}" for name in others))
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
