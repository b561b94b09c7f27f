"""Run a model on a folder of images, with Dask: on all processors, and on where it stopped if it is run again.

Needs the extra "scale". Each image, .npy or .png (which needs Pillow), is one X without its first axis: (C, D1, ...), or
(D1, ...) where C is 1; a .png of colours is (H, W, C) and is turned. Its values are what the model gets, not scaled. The
outputs go to RESULTS/NAME.npz, by their names, each file whole or not at all::

    python scripts/batch_dask.py models/digits.onnx images/ results/
    python scripts/batch_dask.py models/digits.onnx images/ results/ --workers 0    # in this process, without Dask

An image whose results are newer than it and the model is done; older ones are made again. Images run one by one, so that
results do not depend on how they are spread, and tasks are groups of them. A worker that is killed is started again, and
its task too. What is wrong with an image is told by its name, and the others go on. For a cluster of many machines, which
must see the same folders, replace LocalCluster by the one of your scheduler.

Exits with 0 if all images are done, 1 if one could not be or the model cannot run, 2 for wrong usage.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
import sys

import numpy as np
import onnxruntime

import maxpool_ort as mp
from maxpool_ort.feed import check_feed, dtype_of, load_arrays, save_arrays
from maxpool_ort.table import track

try:
    from distributed import Client, Future, KilledWorker, LocalCluster, WorkerPlugin, as_completed, get_worker
except ImportError:  # --workers 0 needs none
    WorkerPlugin = object
    LocalCluster = None

Group = Sequence[tuple[Path, Path]]
"""Images, and where the results of each go."""
Problem = tuple[str, str]
"""The name of an image, and what is wrong with it."""


class SessionPlugin(WorkerPlugin):
    """Brings the session to each worker once, also to those that are started later."""

    def __init__(self, session: mp.InferenceSession) -> None:
        self.session = session

    def setup(self, worker: object) -> None:  # noqa: ARG002 (Dask's signature)
        """The workers are as many as the processors: each has one thread."""
        mp.set_num_threads(1)


def read_image(path: Path, each: onnxruntime.NodeArg) -> np.ndarray:
    """An image as X, one of its kind."""
    if path.suffix == ".png":
        from PIL import Image  # noqa: PLC0415 (only what is a .png needs it)

        with Image.open(path) as image:
            array = np.asarray(image)
        array = array.transpose(2, 0, 1) if array.ndim == 3 else array
    else:
        array = load_arrays(path)[""]
    if array.ndim == len(each.shape) - 2:
        array = array[np.newaxis]
    x = array[np.newaxis].astype(dtype_of(each), casting="same_kind")
    check_feed([each], {each.name: x})
    return x


def run_image(session: mp.InferenceSession, image: Path, results: Path) -> list[Problem]:
    """Run one image, and return what is wrong with it, if anything is."""
    (each,) = session.get_inputs()
    names = [output.name for output in session.get_outputs()]
    try:
        outputs = session.run(names, {each.name: read_image(image, each)})
        save_arrays(results, dict(zip(names, outputs, strict=True)))
    except Exception as error:  # noqa: BLE001 (whatever is wrong with one image, the others go on)
        return [(image.name, f"{type(error).__name__}: {error}")]
    return []


def run_group(session: mp.InferenceSession, group: Group) -> list[Problem]:
    """Run the images of a group, and return what is wrong with some."""
    return [problem for image, results in group for problem in run_image(session, image, results)]


def run_task(group: Group) -> list[Problem]:
    """What a worker does."""
    return run_group(get_worker().plugins[SessionPlugin.__name__].session, group)


def problems_of(task: "Future", group: Group) -> list[Problem]:
    """What is wrong with images of a task that has ended, and which are missing if it ended its workers."""
    try:
        return task.result()
    except KilledWorker as error:
        missing = [image.name for image, results in group if not results.exists()]
        return [(name, f"the first of {', '.join(missing)} ends its worker: {error}") for name in missing]


def run_on_workers(session: mp.InferenceSession, groups: Sequence[Group], workers: int) -> Iterator[list[Problem]]:
    """Run groups of images on workers, in any order."""
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.register_plugin(SessionPlugin(session), name=SessionPlugin.__name__)
        tasks = {client.submit(run_task, group, pure=False): group for group in groups}
        for task in as_completed(tasks):
            yield problems_of(task, tasks[task])


def find_images(options: argparse.Namespace) -> tuple[Group, Group, list[str]]:
    """The images to run, those that are done, and other files."""
    to_do, done, others = [], [], []
    model_time = options.model.stat().st_mtime_ns
    for path in sorted(options.images.iterdir()):
        if path.suffix not in {".npy", ".png"}:
            others.append(path.name)
            continue
        results = options.results / f"{path.name}.npz"
        newest = max(model_time, path.stat().st_mtime_ns)
        (done if results.exists() and results.stat().st_mtime_ns >= newest else to_do).append((path, results))
    return to_do, done, others


def remove_halves(results: Path) -> None:
    """Remove what workers that were killed as they wrote have left."""
    for half in results.glob(".*.npz.*"):
        half.unlink()


def run(options: argparse.Namespace) -> list[Problem]:
    """Run what is to do, and return what is wrong with some images."""
    one_thread = onnxruntime.SessionOptions()
    one_thread.intra_op_num_threads = 1
    session = mp.InferenceSession(options.model, one_thread)
    if len(session.get_inputs()) != 1:
        raise mp.MaxPoolError(f"{options.model}: expected one input, got {len(session.get_inputs())}")
    if options.workers and LocalCluster is None:
        raise mp.MissingDependencyError("Dask is not installed: pip install 'maxpool_ort[scale]', or use --workers 0")
    options.results.mkdir(parents=True, exist_ok=True)
    remove_halves(options.results)
    to_do, done, others = find_images(options)
    for _, results in to_do:
        results.unlink(missing_ok=True)
    groups = [to_do[start : start + options.group] for start in range(0, len(to_do), options.group)]
    finished = (
        run_on_workers(session, groups, options.workers)
        if options.workers and groups
        else (run_group(session, group) for group in groups)
    )
    with closing(finished):
        problems = [problem for _ in track(range(len(groups)), "images") for problem in next(finished)]
    remove_halves(options.results)
    print(f"{len(to_do) - len(problems)} images done, {len(done)} were done before, {len(problems)} have problems")
    if others:
        print(f"left, since neither .npy nor .png: {', '.join(others)}")
    return sorted(problems)


def main() -> int:
    """Run the command line."""
    description, _, epilog = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model with one input, whose first axis may be 1")
    parser.add_argument("images", type=Path, metavar="IMAGES", help="folder of .npy and .png files")
    parser.add_argument("results", type=Path, metavar="RESULTS", help="folder for the outputs; made if it is not there")
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        default=mp.get_num_threads(),
        help="processes, 0 for this one alone (default: as many as there are processors)",
    )
    parser.add_argument("--group", type=int, metavar="N", default=16, help="images a task (default: 16)")
    options = parser.parse_args()
    if options.workers < 0 or options.group < 1:
        parser.error(f"expected --workers >= 0 and --group >= 1, got {options.workers} and {options.group}")
    try:
        problems = run(options)
    except (mp.MaxPoolError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    for name, problem in problems:
        print(f"{name}: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
