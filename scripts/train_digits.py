# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6", "scikit-learn>=1.5", "onnx>=1.18", "onnxruntime>=1.20", "numpy>=1.26"]
# ///
# Copyright (c) 2026 the maxpool_ort authors
"""Train a small CNN on handwritten digits and write `models/digits.onnx` and `models/digits.npz`.

Run from the repository root, in an environment of its own (the package needs neither torch nor scikit-learn)::

    uv run scripts/train_digits.py                # reads the block above, or:
    pip install torch scikit-learn onnx onnxruntime && python scripts/train_digits.py

The data are the 1,797 images of 8x8 pixels that scikit-learn ships. A quarter, drawn at random within each digit, is
held out: it plays no part in training and chooses nothing, because the number of epochs is fixed. The draw does not
separate writers, so the accuracy is that for writers already seen. The same machine and versions give the same bytes.
"""

import argparse
from collections import OrderedDict
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser
import onnxruntime as ort
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
import torch
from torch import nn

SEED = 0
BATCH_SIZE = 32
PEAK_LEARNING_RATE = 5e-3
PIXEL_MAX = 16.0
REQUIRED_ACCURACY = 0.97

DATA_SOURCE = "UCI ML hand-written digits (Optical Recognition of Handwritten Digits), via sklearn.datasets.load_digits"
CITATION = "E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998"

# The two pools differ on purpose: pool1 has pads on both ends, pool2's last window on each axis hangs over the end and
# exists by ceil_mode only (4 -> 2, where floor would give 1).
GRAPH = """
<ir_version: 7, opset_import: ["": 12], producer_name: "maxpool_ort/scripts/train_digits.py">
digits (float[N, 1, 8, 8] image) => (float[N, 10] probabilities) {
    [scale]   scaled        = Div (image, pixel_max)
    [conv1]   conv1_out     = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (scaled, conv1_weight, conv1_bias)
    [relu1]   relu1_out     = Relu (conv1_out)
    [pool1]   pool1_out     = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (relu1_out)
    [conv2]   conv2_out     = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (pool1_out, conv2_weight, conv2_bias)
    [relu2]   relu2_out     = Relu (conv2_out)
    [pool2]   pool2_out     = MaxPool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (relu2_out)
    [flatten] features      = Flatten <axis = 1> (pool2_out)
    [dense1]  dense1_out    = Gemm <transB = 1> (features, dense1_weight, dense1_bias)
    [relu3]   relu3_out     = Relu (dense1_out)
    [dense2]  logits        = Gemm <transB = 1> (relu3_out, dense2_weight, dense2_bias)
    [softmax] probabilities = Softmax <axis = 1> (logits)
}
"""


def make_network() -> nn.Sequential:
    """Return `GRAPH` from conv1 to dense2 in PyTorch, with the same names."""
    layers = {
        "conv1": nn.Conv2d(1, 16, kernel_size=3, padding=1),
        "relu1": nn.ReLU(),
        "pool1": nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        "conv2": nn.Conv2d(16, 32, kernel_size=3, padding=1),
        "relu2": nn.ReLU(),
        "pool2": nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
        "flatten": nn.Flatten(),
        "dense1": nn.Linear(32 * 2 * 2, 64),
        "relu3": nn.ReLU(),
        "dense2": nn.Linear(64, 10),
    }
    return nn.Sequential(OrderedDict(layers))


def shift_by_up_to_one_pixel(image: torch.Tensor) -> torch.Tensor:
    """Move each image of (N, 1, 8, 8) by -1, 0 or 1 pixel along each axis, at random; zeros come in."""
    shifted = nn.functional.pad(image, (1, 1, 1, 1)).unfold(2, 8, 1).unfold(3, 8, 1)  # (N, 1, 3, 3, 8, 8)
    row, column = torch.randint(3, (2, len(image)))
    return shifted[torch.arange(len(image)), :, row, column]


def train(image: np.ndarray, label: np.ndarray, epochs: int) -> nn.Sequential:
    """Return a network trained on image (N, 1, 8, 8), float32 in 0..16, and label (N,), int64."""
    x, y = torch.from_numpy(image) / PIXEL_MAX, torch.from_numpy(label)
    network = make_network()
    optimizer = torch.optim.AdamW(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK_LEARNING_RATE, epochs=epochs, steps_per_epoch=-(-len(x) // BATCH_SIZE)
    )
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(BATCH_SIZE):
            loss = nn.functional.cross_entropy(network(shift_by_up_to_one_pixel(x[batch])), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def make_model(network: nn.Sequential, held_out_accuracy: str) -> onnx.ModelProto:
    """Return `GRAPH` with the weights of `network`, documented and checked."""
    model = parser.parse_model(GRAPH)
    model.doc_string = "Reads one handwritten digit per 8x8 image, with two MaxPool nodes on the way."
    model.graph.doc_string = "Two convolutions, each with a Relu and a MaxPool, then two dense layers and a Softmax."
    model.graph.input[0].doc_string = "N images of 8x8 pixels, values 0 (paper) to 16 (ink), as load_digits gives them."
    model.graph.output[0].doc_string = "Probability of each digit 0..9; each row sums to 1."
    weights = {name.replace(".", "_"): tensor.numpy() for name, tensor in network.state_dict().items()}
    weights["pixel_max"] = np.float32(PIXEL_MAX)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(w), name) for name, w in weights.items())
    metadata = {"data_source": DATA_SOURCE, "data_citation": CITATION, "data_license": "CC BY 4.0"}
    helper.set_model_props(model, metadata | {"held_out_accuracy": held_out_accuracy})
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Train, write both files, and hold ONNX Runtime's answers against PyTorch's."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, default=Path("models"), help="folder to write to (default: %(default)s)")
    arguments.add_argument("--epochs", type=int, default=60, help="passes over the data (default: %(default)s)")
    options = arguments.parse_args()
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)

    digits = load_digits()
    image, label = digits.images[:, None].astype(np.float32), digits.target.astype(np.int64)
    train_image, test_image, train_label, test_label = train_test_split(
        image, label, test_size=0.25, stratify=label, random_state=SEED
    )
    network = train(train_image, train_label, options.epochs)
    with torch.inference_mode():
        expected = network(torch.from_numpy(test_image) / PIXEL_MAX).softmax(dim=1).numpy()
    correct = int((expected.argmax(axis=1) == test_label).sum())
    accuracy = f"{correct / len(test_label):.4f} ({correct} of {len(test_label)})"
    if correct < REQUIRED_ACCURACY * len(test_label):
        raise SystemExit(f"nothing written: held-out accuracy must reach {REQUIRED_ACCURACY}, got {accuracy}")

    options.out.mkdir(parents=True, exist_ok=True)
    onnx.save(make_model(network, accuracy), options.out / "digits.onnx")
    np.savez_compressed(options.out / "digits.npz", image=test_image, label=test_label)

    session = ort.InferenceSession(options.out / "digits.onnx", providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(["probabilities"], {"image": test_image})
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-5)
    got, largest = (probabilities.argmax(axis=1) == test_label).mean(), np.abs(probabilities - expected).max()
    print(f"held-out accuracy: {accuracy} with PyTorch, {got:.4f} with ONNX Runtime (outputs within {largest:.1e})")


if __name__ == "__main__":
    main()
