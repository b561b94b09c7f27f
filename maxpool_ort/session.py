"""InferenceSession: ONNX Runtime's, with every MaxPool of its model running our operator."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
import logging
import os
from pathlib import Path
import threading
from typing import Any

from onnx import ModelProto
import onnxruntime

from maxpool_ort.convert import convert_model
from maxpool_ort.decide import ConvertedNode, Select, SkippedNode
from maxpool_ort.errors import InvalidModelError, MaxPoolError
from maxpool_ort.failures import raising_failures, telling_failures
from maxpool_ort.files import external_files, external_tensors, has_external_data, parse_model, read_model, serialized
from maxpool_ort.op import register

__all__ = ["InferenceSession", "finding_external_files"]

_EXTERNAL_DATA_FOLDER = "session.model_external_initializers_file_folder_path"
"""Config entry of ONNX Runtime: where a model that is given as bytes has its external data."""

_CONFIG_ENTRIES = [
    *(f"session.{name}" for name in (
        "disable_cpu_ep_fallback", "disable_double_qdq_remover", "disable_prepacking", "disable_qdq_constant_folding",
        "disable_quant_qdq", "dynamic_block_base", "enable_quant_qdq_cleanup", "force_spinning_stop",
        "inter_op.allow_spinning", "intra_op.allow_spinning", "intra_op_thread_affinities", "qdqisint8allowed",
        "set_denormal_as_zero", "strict_shape_type_inference", "use_device_allocator_for_initializers",
        "use_env_allocators", "x64quantprecision",
    )),
    "optimization.disable_specified_optimizers",
    "optimization.enable_gelu_approximation",
]  # fmt: skip
"""Those that a pickle keeps, if they are set."""

_log = logging.getLogger("maxpool_ort")
_placing = threading.RLock()
"""One session at a time: others may be made with the same SessionOptions, and would find its files, not theirs."""


class InferenceSession(onnxruntime.InferenceSession):  # type: ignore[misc]  # onnxruntime has no types
    """A drop-in for ``onnxruntime.InferenceSession``: converts the model in memory, registers our operators, runs.

    Parameters
    ----------
    path_or_bytes
        An ONNX model: the path of a file, its bytes, or an ``onnx.ModelProto``. Converted models are welcome too.
    sess_options, providers, provider_options, **kwargs
        As for ``onnxruntime.InferenceSession``. Our operators are added to ``sess_options``.
    select
        Which nodes run our operator, as for ``convert_model``.

    Attributes
    ----------
    converted, skipped
        Each MaxPool node that runs our operator, and each that does not, and why: see ``convert_model``.

    Raises
    ------
    OSError
        If the file cannot be read.
    MaxPoolError
        If this is no ONNX model, or one with an invalid MaxPool node.

    Notes
    -----
    A session pickles, with its model, its providers, and the properties and common config entries of its
    SessionOptions; not with what cannot be read back from these: other entries, and operators of others.

    Examples
    --------
    >>> import numpy as np
    >>> from maxpool_ort.model import make_maxpool_model
    >>> model = make_maxpool_model(kernel_shape=[2], input_shape=["N", 1, "L"], strides=[2], with_indices=True)
    >>> session = InferenceSession(model)
    >>> [output.tolist() for output in session.run(None, {"X": np.array([[[3, 1, 4, 1, 5, 9]]], np.float32)})]
    [[[[3.0, 4.0, 9.0]]], [[[0, 2, 5]]]]
    """

    converted: tuple[ConvertedNode, ...]
    skipped: tuple[SkippedNode, ...]

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str] | ModelProto,
        sess_options: onnxruntime.SessionOptions | None = None,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        *,
        select: Select = "all",
        **kwargs: Any,
    ) -> None:
        model = _load(path_or_bytes)
        options = onnxruntime.SessionOptions() if sess_options is None else sess_options
        register(options)
        # Parallel execution runs nodes on threads of its own, where only a guard tells whose run has failed.
        is_parallel = options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
        conversion = convert_model(model, select=select, guard="all" if is_parallel else "needed")
        self.converted = conversion.converted
        self.skipped = conversion.skipped
        for node in (node for node in conversion.skipped if not (node.is_ours or node.is_choice)):
            _log.warning("%s in %s does not run our operator: %s", node.node, node.where, node.reason)
        self._path = path_or_bytes if isinstance(path_or_bytes, (str, os.PathLike)) else None
        self._kwargs = kwargs
        self._start(conversion.model, options, providers, provider_options)

    def _start(
        self,
        model: ModelProto,
        options: onnxruntime.SessionOptions,
        providers: Sequence[Any] | None,
        provider_options: Sequence[dict[Any, Any]] | None,
    ) -> None:
        register(options)
        # ONNX Runtime tries the same again where it falls back from the CPU to the CPU, and says so on stdout.
        is_cpu = not providers or list(providers) == ["CPUExecutionProvider"]
        kwargs = {"enable_fallback": 0, **self._kwargs} if is_cpu else self._kwargs
        with finding_external_files(model, self._path, options) as placed:
            try:
                super().__init__(serialized(placed), options, providers, provider_options, **kwargs)
            except UnicodeDecodeError as error:  # ONNX Runtime's own message holds the name
                said = error.object.decode("utf-8", "backslashreplace")
                raise InvalidModelError(
                    f"the model holds a name that is not UTF-8; onnxruntime says: {said}"
                ) from error
            except Exception as error:
                if "Conflicting with a registered kernel" in str(error):
                    raise MaxPoolError(
                        "the SessionOptions had onnxruntime-extensions' library already, which a session takes once; "
                        "make new SessionOptions, and let this session or maxpool_ort.register add it"
                    ) from error
                raise
            if placed is not model and self._path is not None:  # what refers to files is as if it lay beside them
                self._path = os.path.realpath(self._path)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: the converted model, and what can be read back of the options."""
        return {
            "model": self._model_bytes,
            "path": None if self._path is None else os.path.abspath(self._path),  # noqa: PTH100 (a link stays one)
            "options": _readable(self.get_session_options()),
            "providers": (self.get_providers(), list(self.get_provider_options().values())),
            "kwargs": self._kwargs,
            "nodes": (self.converted, self.skipped),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the session again."""
        self._path, self._kwargs = state["path"], state["kwargs"]
        self.converted, self.skipped = state["nodes"]
        properties, entries = state["options"]
        options = onnxruntime.SessionOptions()
        for name, value in properties.items():
            setattr(options, name, value)
        for key, value in entries.items():
            options.add_session_config_entry(key, value)
        self._start(parse_model(state["model"], "the pickle"), options, *state["providers"])

    # All take what the base class takes; those that wait hand on RunOptions, by which a signal can stop them.

    def run(self, output_names: Any, input_feed: Any, run_options: Any = None) -> Any:  # noqa: D102
        options = _options(run_options)
        with raising_failures(options):
            return super().run(output_names, input_feed, options)

    def run_with_ort_values(self, output_names: Any, input_dict_ort_values: Any, run_options: Any = None) -> Any:  # noqa: D102
        options = _options(run_options)
        with raising_failures(options):
            return super().run_with_ort_values(output_names, input_dict_ort_values, options)

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> Any:  # noqa: D102
        options = _options(run_options)
        with raising_failures(options, has_places=True):
            return super().run_with_iobinding(iobinding, options)

    def run_with_ortvaluevector(self, run_options: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: D102
        options = _options(run_options)
        with raising_failures(options, has_places=True):
            return super().run_with_ortvaluevector(options, *args, **kwargs)

    def run_async(
        self, output_names: Any, input_feed: Any, callback: Any, user_data: Any, run_options: Any = None
    ) -> Any:
        """As onnxruntime's; ``maxpool_ort.failure_of`` gives the real error for the text that the callback gets."""
        told = telling_failures(callback)
        return super().run_async(output_names, input_feed, told, user_data, run_options)


def _options(given: onnxruntime.RunOptions | None) -> onnxruntime.RunOptions:
    return onnxruntime.RunOptions() if given is None else given


def _readable(options: onnxruntime.SessionOptions) -> tuple[dict[str, Any], dict[str, str]]:
    """Properties, and those of the config entries above that are set: others cannot be enumerated."""
    names = [name for name in dir(options) if not name.startswith("_") and not callable(getattr(options, name))]
    entries = {}
    for key in _CONFIG_ENTRIES:
        with suppress(RuntimeError):  # it is not set
            entries[key] = options.get_session_config_entry(key)
    return {name: getattr(options, name) for name in names}, entries


@contextmanager
def finding_external_files(
    model: ModelProto, path: object, options: onnxruntime.SessionOptions
) -> Iterator[ModelProto]:
    """Let a session that is made of a message find the files in which a model from a path keeps tensors.

    Gives the message to make it of. ``path`` may be anything else that ``InferenceSession`` takes, and None; then
    nothing is done.
    """
    if not isinstance(path, (str, os.PathLike)) or not has_external_data(model):
        yield model
        return
    folder = Path(path).absolute().parent
    real = Path(path).resolve().parent
    files = external_files(model, path, missing_ok=True)  # add_external_initializers may have given what they hold
    if real != folder.resolve() and all(file.resolve().is_relative_to(real) for file in files.values()):
        folder = real  # a model and its files as links to files of other names: as caches of downloads have them
        renamed = ModelProto()
        renamed.CopyFrom(model)
        for _, entry in external_tensors(renamed):
            entry.value = str(files[entry.value].resolve().relative_to(real))
        model = renamed
    with _placing:
        try:
            before = options.get_session_config_entry(_EXTERNAL_DATA_FOLDER)
        except RuntimeError:  # no such entry; an empty one is none
            before = ""
        options.add_session_config_entry(_EXTERNAL_DATA_FOLDER, str(folder))
        try:
            yield model
        except Exception:
            external_files(model, path)  # if one is missing, that is why
            raise
        finally:
            options.add_session_config_entry(_EXTERNAL_DATA_FOLDER, before)


def _load(model: str | bytes | os.PathLike[str] | ModelProto) -> ModelProto:
    if isinstance(model, ModelProto):
        return model
    if isinstance(model, bytes):
        return parse_model(model, "the bytes given")
    if isinstance(model, (str, os.PathLike)):
        return read_model(model)
    raise TypeError(f"expected a path, bytes or an onnx.ModelProto, got {type(model).__name__}")
