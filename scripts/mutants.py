"""Break the package on purpose, one line at a time, and see that a test notices: prints each mutant and its fate.

Run from the repository root, in the environment of the tests::

    python scripts/mutants.py                 # all, about an hour
    python scripts/mutants.py kernel/plan     # those of one module

Each mutant is a copy of the package with one expression changed, on which the tests of its module run until the first
failure. Exits with 1 if one survives. The table is made by hand: the changes that a slip of the pen would make.
"""

import os
from pathlib import Path
import shutil
import subprocess
import sys
import tempfile

ROOT = Path(__file__).parents[1]
OPERATOR = ["array", "operator", "kernel", "geometry", "schema", "wire"]
BORDER = ["failures", "op", "session", "limits", "external_data", "stress", "onnxruntime"]
CONVERSION = [
    "convert", "functions", "shapes", "quantized", "unchanged", "exports", "external_data", "drawn_graphs", "onnxruntime",
]  # fmt: skip
# Tests that run on the mutants of a module, those of its name first; of all others those of the operator.
TESTS = {
    **dict.fromkeys(["limits", "interrupts", "failures", "op", "session"], BORDER),
    "outputs": ["outputs"],
    "wire": [*OPERATOR, "convert", "unchanged"],
    "array": ["limits", *OPERATOR],
    **{
        f"kernel/{name}": ["kernel", "operator", "array"]
        for name in (
            "__init__",
            "block",
            "calls",
            "passes",
            "places",
            "plan",
            "positions",
            "program",
            "sortable",
            "taps",
            "threads",
            "workspace",
        )
    },
    **dict.fromkeys(["twin", "inference", "decide", "quantized", "rewrite", "repair", "restore", "graphs"], CONVERSION),
}

# (module, what stands there, what is put there instead)
MUTANTS = [
    ("geometry", "return -((extent - 1 - size) // stride)", "return (size - extent + 1) // stride"),
    ("geometry", "return -(-size // stride)", "return size // stride"),
    ("geometry", "return span // stride + 1", "return int(span / stride) + 1"),
    ("geometry", "output = -(-span // stride) + 1", "output = span // stride + 1"),
    ("geometry", "(output - 1) * stride >= size + pad_begin", "(output - 1) * stride > size + pad_begin"),
    ("geometry", "(output - 1) * stride >= size + pad_begin", "(output - 1) * stride >= size"),
    ("geometry", "total = max(0, (output - 1) * stride + extent - size)", "total = (output - 1) * stride + extent - size"),
    ("geometry", "total // 2 if auto_pad is AutoPad.SAME_UPPER", "total // 2 if auto_pad is AutoPad.SAME_LOWER"),
    ("geometry", "pad_end = total - pad_begin", "pad_end = total // 2"),
    ("geometry", "(self.kernel - 1) * self.dilation + 1", "self.kernel * self.dilation"),
    ("geometry", "if axis.output < 0:", "if axis.output < -1:"),
    ("geometry", "first = max(0, -(-offset // self.stride))", "first = max(0, offset // self.stride)"),
    ("geometry", "last = min(self.output - 1, ", "last = min(self.output, "),
    ("geometry", "if len(taps) <= 4 * (self.input + self.output):", "if True:"),
    ("geometry", "if axis.extent > LARGEST_EXTENT:", "if False:"),
    ("geometry", "if axis.extent > LARGEST_EXTENT:", "if axis.extent >= LARGEST_EXTENT:"),
    ("geometry", "if auto_pad is AutoPad.VALID:", "if auto_pad is AutoPad.VALID and not ceil_mode:"),
    ("geometry", "if auto_pad in (AutoPad.SAME_UPPER, AutoPad.SAME_LOWER):", "if auto_pad is AutoPad.SAME_UPPER:"),
    ("schema", "most = 200 if isinstance(values, str | bytes) else 8", "most = 8"),
    ("schema", "return text if len(values) <= most", "return text if len(values) < most"),
    ("schema", "None if isinstance(value, str | bytes) else tuple(value)", "None if isinstance(value, str) else tuple(value)"),
    ("schema", "tuple(map(operator.index, given))", "tuple(map(int, given))"),
    ("schema", "minimum <= i <= LARGEST_ENTRY", "minimum < i <= LARGEST_ENTRY"),
    ("schema", "minimum <= i <= LARGEST_ENTRY", "minimum <= i < LARGEST_ENTRY"),
    ("schema", "if flag not in (0, 1):", "if flag not in (-1, 0, 1):"),
    ("schema", 'AutoPad(value or "NOTSET")', "AutoPad(value)"),
    ("schema", "[1] * rank if strides is None else strides", "[1] * rank if strides is None else dilations"),
    ("schema", "2 * rank if pads is None else pads, 2 * rank, 0)", "2 * rank if pads is None else pads, 2 * rank, 1)"),
    ("schema", '_flag("storage_order", storage_order)', '_flag("storage_order", ceil_mode)'),
    ("schema", "and any(self.pads):", "and any(self.pads[:rank]):"),
    ("schema", "if node.op_type not in {OP_TYPE, OP_TYPE_WITH_INDICES}:", "if node.op_type != OP_TYPE:"),
    ("schema", "if not all(isinstance(dim, int) for dim in dims):", "if False:"),
    ("schema", "return (*dims[:2], *spatial)", "return (None, dims[1], *spatial)"),
    ("schema", "if text != defaults[name]", "if text"),
    ("schema", "if attribute.name not in schema.attributes:", "if False:"),
    ("schema", "if len(node.input) != 1 or not node.input[0]:", "if len(node.input) != 1:"),
    ("schema", "<= schema.max_output or not node.output[0]:", "<= schema.max_output:"),
    ("schema", "if got and got not in takes:", "if False:"),
    ("schema", "isinstance(dim, str) else operator.index(dim) for dim in dims", "isinstance(dim, str) else int(dim) for dim in dims"),
    ("schema", "isinstance(dim, str) else operator.index(dim) for dim in dims", "isinstance(dim, str) else dim for dim in dims"),
    ("schema", "if len(input_dims) != rank + 2:", "if len(input_dims) < rank + 2:"),
    ("schema", "isinstance(dim, int) and dim < 0", "isinstance(dim, int) and dim < -1"),
    ("schema", "(attributes.kernel_shape[i] - 1) * attributes.dilations[i] + 1", "attributes.kernel_shape[i]"),
    ("schema", "stride=attributes.strides[i]", "stride=attributes.strides[0]"),
    ("schema", "dilation=attributes.dilations[i]", "dilation=attributes.dilations[-1]"),
    ("schema", "pad_begin=attributes.pads[i]", "pad_begin=attributes.pads[2 * i]"),
    ("schema", "pad_end=attributes.pads[rank + i]", "pad_end=attributes.pads[i]"),
    ("schema", "ceil_mode=attributes.ceil_mode,", "ceil_mode=0,"),
    ("schema", "if name in values:", "if False:"),
    ("schema", "if attribute.ref_attr_name:", "if False:"),
    ("schema", "if attribute.type != ATTRIBUTE_TYPES[name]:", "if False:"),
    ("kernel/passes", "shifts.append(min(width, kernel - width))", "shifts.append(width)"),
    ("kernel/passes", "while width < kernel:", "while width < kernel - 1:"),
    ("kernel/passes", "elif self.is_clipped and step.ahead:", "elif False:"),
    ("kernel/passes", "(axis.kernel - 1 - back) * axis.dilation >= size", "(axis.kernel - 1 - back) * axis.dilation > size"),
    ("kernel/passes", "(axis.kernel - 1 - back) * axis.dilation >= size", "(axis.kernel - 1 - back) >= size"),
    ("kernel/passes", "min(self.size, step.back)", "step.back"),
    ("kernel/passes", "min(self.size, step.ahead)", "step.ahead"),
    ("kernel/passes", "residue = first % dilation", "residue = first"),
    ("kernel/passes", "residue = first % dilation", "residue = 0"),
    ("kernel/passes", "min(count, start + dilation)", "start + dilation"),
    ("kernel/passes", "range(self.size - count, self.size, together)", "range(self.size - count + 1, self.size, together)"),
    ("kernel/passes", "yield Mend(windows, _moved(windows, -step.back), None)", "yield Mend(windows, windows, None)"),
    ("kernel/passes", "yield Mend(windows, first, _moved(windows, step.ahead))", "yield Mend(windows, first, windows)"),
    ("kernel/passes", "start = step.last - step.ahead + 1", "start = step.last + 1"),
    ("kernel/passes", "_moved(residues, step.last - self.dilation + 1)", "_moved(residues, step.last)"),
    ("kernel/passes", "self._by_residues(self.anchors.stop - start)", "self._by_residues(self.size - self.dilation - start)"),
    ("kernel/passes", "and all(step.last is None for step in steps)", "and False"),
    ("kernel/passes", "is_inside = size >= axis.extent", "is_inside = True"),
    ("kernel/passes", "is_inside = size >= axis.extent", "is_inside = size >= axis.kernel"),
    ("kernel/passes", "is_many and anchors[-1] + ahead - min(distances) <= last", "is_many"),
    ("kernel/passes", "anchors[-1] + ahead - min(distances) <= last", "anchors[-1] + ahead - min(distances) <= last + 1"),
    ("kernel/passes", "*(Step(distance - ahead, ahead, last", "*(Step(distance, 0, last"),
    ("kernel/passes", "last = (forward - width) * dilation, size - 1 - (width - 1) * dilation", "last = (forward - width) * dilation, size - 1"),
    ("kernel/passes", "ordered.reverse()", "pass"),
    ("kernel/passes", "or along.anchors != range(along.size)", ""),
    ("kernel/passes", "outputs=(slice(None), *map(seen_outputs, axes))", "outputs=(slice(None),) * (1 + len(axes))"),
    ("kernel/passes", "shift * dilation for shift in _shifts(axis.kernel, width)", "shift for shift in _shifts(axis.kernel, width)"),
    ("kernel/passes", "width = forward = axis.kernel - back", "width = forward = axis.kernel"),
    ("kernel/passes", "tap = max(0, -(start // axis.dilation))", "tap = max(0, -start // axis.dilation)"),
    ("kernel/passes", "first = start + tap * axis.dilation", "first = start + tap"),
    ("kernel/passes", "max(axis.input, _anchors(axis)[1].stop)", "axis.input"),
    ("kernel/passes", "-((axis.extent - 1 - axis.pad_begin) // axis.stride)", "-((axis.extent - 2 - axis.pad_begin) // axis.stride)"),
    ("kernel/passes", "-(-(axis.input + axis.pad_begin) // axis.stride)", "axis.output"),
    ("kernel/passes", "if any(axis.stop == axis.start for axis in map(seen_outputs, axes)):", "if False:"),
    ("kernel/passes", " and size <= MOST_POSITIONS * prod(inputs)", ""),
    ("kernel/passes", "tap = np.maximum(0, -(origin // axis.dilation))", "tap = np.maximum(0, -origin // axis.dilation)"),
    ("kernel/passes", "is_empty = (tap >= axis.kernel) | (position >= axis.input)", "is_empty = tap >= axis.kernel"),
    ("kernel/passes", "self.sizes != self.inputs or (", "(" ),
    ("kernel/plan", "pad_begin=low - origin", "pad_begin=0"),
    ("kernel/plan", "origin + (stop - start - 1) * axis.stride + axis.extent", "origin + (stop - start - 1) * axis.stride + axis.kernel"),
    ("kernel/plan", "has_empty=any(map(_empty_outputs, axes))", "has_empty=all(map(_empty_outputs, axes))"),
    ("kernel/plan", "max(seen.start, -(-axis.pad_begin // axis.stride))", "max(seen.start, axis.pad_begin // axis.stride)"),
    ("kernel/plan", "if seen.stop < axis.output", "if False"),
    ("kernel/plan", "[slice(0, seen.start)] if seen.start else []", "[]"),
    ("kernel/plan", "if read() > MOST_READ * prod(geometry.input_spatial_shape):", "if False:"),
    ("kernel/passes", "range(self.dilation, forward + 1, self.dilation)", "range(self.dilation, forward, self.dilation)"),
    ("kernel/passes", "*range(-self.back, 0, self.dilation)", "*range(-self.back, 0, 1)"),
    ("kernel/passes", "max(0, -(positions.start // stride))", "max(0, -positions.start // stride)"),
    ("kernel/passes", "-((positions.start - self.size) // stride)", "-((positions.start - self.size) // stride) - 1"),
    ("kernel/passes", "is_numbered and 0 < steps", "0 < steps"),
    ("kernel/calls", "return _Given(of + is_run, key)", "return _Given(of, key)"),
    ("kernel/calls", "if step == 1 or kept.start or", "if step == 1 or"),
    ("kernel/calls", "width not in (2, 4, 8) or array.shape[-1] % step", "width not in (2, 4, 8)"),
    ("kernel/calls", "slice(0, -(-kept.stop // step))", "slice(0, kept.stop // step)"),
    ("kernel/places", "np.min_scalar_type((1 << shift + along.taps.bit_length()) - 1)", "np.dtype(np.uint8)"),
    ("kernel/places", "(1 << shift + along.taps.bit_length()) - 1", "(1 << along.taps.bit_length()) - 1"),
    ("kernel/places", "shift = self._fields[-1].shift + self._fields[-1].bits if self._fields else 0", "shift = self._fields[-1].bits if self._fields else 0"),
    ("kernel/places", "distance // self.along.dilation << self.shift", "distance << self.shift"),
    ("kernel/places", "sum((size - 1) * stride for", "sum((size - 2) * stride for"),
    ("kernel/places", "self._calls.add(self._greater, *reversed(maxima), out=is_greater)", "self._calls.add(self._greater, *maxima, out=is_greater)"),
    ("kernel/places", "if self._are_zero and not first.any():", "if self._are_zero:"),
    ("kernel/places", "            if first.any():", "            if False:"),
    ("kernel/places", "if (numbers == numbers.flat[0]).all():", "if True:"),
    ("kernel/places", "len(self._shape) - 1 - field.along.number", "0"),
    ("kernel/places", "self._calls.add(np.add, later, second, out=moved)", "self._calls.add(np.add, later, out.dtype.type(0), out=moved)"),
    ("kernel/places", "self._calls.add(np.maximum, earlier, moved, out=out)", "self._calls.add(np.add, earlier, moved, out=out)"),
    ("kernel/places", "self._places, self._are_zero = self._made, False", "self._places = self._made"),
    ("kernel/places", "field.along.back * stride for", "0 * stride for"),
    ("kernel/places", "_wrapped(back, np.dtype(np.int64))", "0"),
    ("kernel/places", "inner = weight << field.bits", "inner = 0"),
    ("kernel/places", "weight = field.along.dilation * stride", "weight = stride"),
    ("kernel/places", "np.uint64(number % 2**64).astype(dtype)", "dtype.type(abs(number))"),
    ("kernel/program", "joined = slice(0, size - before - behind), slice(before + behind, size)", "joined = slice(before + behind, size), slice(0, size - before - behind)"),
    ("kernel/program", "slice(before, size - behind)", "slice(behind, size - before)"),
    ("kernel/program", "if before + behind < size:", "if True:"),
    ("kernel/program", "self.calls.add(np.maximum, earlier, later,", "self.calls.add(np.fmax, earlier, later,"),
    ("kernel/program", "np.subtract(mend.windows, step.back)", "mend.windows"),
    ("kernel/program", "if self._source.size != self.inputs.size and self._workspace.owner is not self:", "if False:"),
    ("kernel/program", "np.isnan(later) & ~np.isnan(earlier)", "np.isnan(later)"),
    ("kernel/program", "can_put_out and self._is_whole() and number", "can_put_out and number"),
    ("kernel/program", "can_put_out and self._is_whole() and number", "self._is_whole() and number"),
    ("kernel/program", "slice(part.start, None, self._shape[-1]) for part in parts", "slice(part.start, None, along.size) for part in parts"),
    ("kernel/program", "or along.is_along_rows or along.anchors.step == 1:", "or along.is_along_rows:"),
    ("kernel/program", "or along.is_along_rows or along.anchors.step == 1:", "or along.anchors.step == 1:"),
    ("kernel/program", "len(joins[0][0]) == count", "True"),
    ("kernel/program", "if not are_all_joined:", "if False:"),
    ("kernel/program", "self._places.stay(windows, earlier)", "pass"),
    ("kernel/program", "np.add, indices, part(ORIGINS, ()), out", "np.add, indices, np.int64(0), out"),
    ("kernel/block", 'if best.dtype.kind == "f" and np.isnan(best[work.layout.outputs].max()):', "if False:"),
    ("kernel/block", "origins, greater_or_first_nan)", "origins, np.greater_equal)"),
    ("kernel/block", "greater: Callable[..., Any] = np.greater,", "greater: Callable[..., Any] = np.greater_equal,"),
    ("kernel/block", "is_copied = layout.has_gaps or x.dtype", "is_copied = x.dtype"),
    ("kernel/block", "is_one_run = y.flags.c_contiguous", "is_one_run = True"),
    ("kernel/block", "else indices[layout.outputs]", "else indices"),
    ("kernel/taps", "np.isnan(candidate) & ~np.isnan(target)", "np.isnan(candidate)"),
    ("kernel/taps", "(candidate > target)", "(candidate >= target)"),
    ("kernel/taps", "in reversed(list(enumerate(axes, start=1))):", "in list(enumerate(axes, start=1)):"),
    ("kernel/positions", "coordinate * prod(sizes[:number])", "coordinate * prod(sizes[number + 1 :])"),
    ("kernel/sortable", "np.subtract(out, sign, out=out)", "pass"),
    ("kernel/sortable", "out[is_nan] = _MAGNITUDE_BITS", "pass"),
    ("kernel/sortable", "sign & _SIGN_BIT", "0"),
    ("kernel/threads", "queue.clear()", "pass"),
    ("kernel/threads", "        done.get()", "        pass"),
    ("kernel/workspace", "self._programs.clear()", "pass"),
    ("kernel/workspace", "if self._is_kept:", "if True:"),
    ("kernel/__init__", "np.arange(first, first + len(x)) * prod", "np.arange(len(x)) * prod"),
    ("kernel/__init__", "+ piece.start(self._strides)", ""),
    ("kernel/__init__", "y[outputs] = lowest(y.dtype)", "pass"),
    ("kernel/__init__", "indices[outputs] = -1", "pass"),
    ("kernel/__init__", "and self._storage_order and x.size:", "and False:"),
    ("kernel/__init__", "slice(first, first + plan.planes)", "slice(first, first + plan.planes - 1)"),
    ("kernel/__init__", "key = itemsize, threads", "key = threads"),
    ("kernel/taps", "before = (slice(None),) * number", "before = (slice(None),)"),
    ("kernel/positions", "np.add(total, rest * prod(sizes), out=indices)", "np.copyto(indices, total)"),
    ("kernel/threads", "if count < 1:", "if count < 0:"),
    ("kernel/threads", "os.register_at_fork(after_in_child=_forget)", "pass"),
    ("kernel/workspace", "return Workspace() if kept.is_busy else kept", "return kept"),
    ("kernel/workspace", "self._buffers[name].size < size", "False"),
    ("array", "if x.dtype not in DTYPES:", "if False:"),
    ("array", "storage_order=storage_order,", "storage_order=0,"),
    ("array", "dilations=dilations,", "dilations=strides,"),
    ("array", "x.itemsize, with_indices=bool(return_indices))", "x.itemsize, with_indices=False)"),
    ("wire", "if encode(attributes) != text:", "if False:"),
    ("wire", '(*_LISTS, *_FLAGS, "auto_pad")', '("auto_pad", *_LISTS, *_FLAGS)'),
    ("wire", "except (KeyError, TypeError, ValueError) as error:", "except (KeyError, ValueError) as error:"),
    ("wire", "except (KeyError, TypeError, ValueError) as error:", "except (TypeError, ValueError) as error:"),
    ("wire", "int(entry) for entry in fields[name]", "int(float(entry)) for entry in fields[name]"),
    ("wire", "for a in node.attribute if not a.name.startswith(_PREFIX))", "for a in node.attribute)"),
    ("wire", "for attribute in node.attribute if attribute.name.startswith(_PREFIX)}", "for attribute in node.attribute}"),
    ("wire", "carried(node).get(ATTRIBUTES, AttributeProto()).s", "carried(node)[ATTRIBUTES].s"),
    ("wire", "if got != expected.encode():", "if False:"),
    ("twin", 'attributes["ceil_mode"].i = 0', "pass"),
    ("twin", "if not is_inner and ir_version >= 4:", "if False:"),
    ("twin", 'value.type.sequence_type.elem_type.tensor_type.ClearField("shape")', "pass"),
    ("twin", "del graph.value_info[:]", "pass"),
    ("twin", "any(map(_rounds_up, node.attribute))", "False"),
    ("inference", 'all(node.op_type != "Scan" for node in nodes)', "True"),
    ("inference", "value = attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute", "value = attribute"),
    ("inference", "tuple(given.items()),", ""),
    ("inference", "(*function.attribute_proto, *node.attribute)", "node.attribute"),
    ("inference", "if len(versions) > 1:", "if False:"),
    ("inference", "elif id(site.callee) not in seen:", "else:"),
    ("decide", "if any(isinstance(true, int) and isinstance(size, int) and true != size for true, size in sizes):", "if False:"),
    ("decide", "if body.function is None and not site.path:", "if True:"),
    ("decide", "if node.op_type in _MAY_GO and places.intersection(node.output):", "if False:"),
    ("decide", " and not (are_checked and _is_fixed(x.proved))", " and not are_checked"),
    ("decide", "if x is not None and x.proved is not None and differs_in_shape(attributes, x.proved):", "if False:"),
    ("decide", "(self.is_proved or decision.is_fed)", "True"),
    ("decide", "decision.x.is_static and ", ""),
    ("quantized", "(reals[:, 1:] > reals[:, :-1]).all()", "True"),
    ("quantized", "(back == integers).all()", "True"),
    ("quantized", "axis == other.axis and axis in (0, 1)", "axis == other.axis"),
    ("quantized", "and not ends & captured", ""),
    ("quantized", "t.name not in fed and ", ""),
    ("quantized", "user is not None and user.input[0] == node.output[0] and ", ""),
    ("quantized", "np.array_equal(zero_point, other.zero_point)", "True"),
    ("quantized", "+ _SHIFT", ""),
    ("rewrite", "if name not in used}", "if False}"),
    ("rewrite", "if x not in inner_names or not ends.is_shared:", "if True:"),
    ("rewrite", "while name in self.taken or name + ZERO_POINT in self.taken:", "while False:"),
    ("rewrite", "if self.body.function is not None:", "if False:"),
    ("rewrite", "while copy.name in taken and taken[copy.name] != copy:", "while False:"),
    ("rewrite", "if name not in self.declared:", "if True:"),
    ("rewrite", "if node.domain != FUNCTION_DOMAIN:", "if True:"),
    ("rewrite", "each.version = body.opset", "pass"),
    ("repair", "p if isinstance(d, int) and isinstance(p, int) else d", "p"),
    ("repair", "p if isinstance(d, int) and isinstance(p, int) else d", "d"),
    ("restore", "if is_helper(node) and node.input and node.output", "if node.input and node.output"),
    ("restore", "name + ZERO_POINT) if quantizes", "name) if quantizes"),
    ("restore", "is_carried = number == 0 and wire.Y in carried", "is_carried = False"),
    ("restore", "ends.update(dict.fromkeys(chain, standard.output[number]))", "pass"),
    ("restore", "(each.domain, each.version) not in ours", "True"),
    ("graphs", "if tensor.ByteSize() < LARGE and not uses_external_data(tensor):", "if False:"),
    ("limits", "if needed > get_memory_limit():", "if False:"),
    ("limits", "if needed > get_memory_limit():", "if needed >= get_memory_limit():"),
    ("limits", "(itemsize + 8 * with_indices)", "itemsize"),
    ("limits", "if count > 2**80:", "if False:"),
    ("limits", "* max(itemsize, 8 * with_indices) >= 2**63:", "* itemsize >= 2**63:"),
    ("limits", "if number < 0:", "if number < 1:"),
    ("limits", "return min(limits)", "return max(limits)"),
    ("interrupts", "if _get_handler(number) is deferring:", "if True:"),
    ("failures", "failure = _first(thread) or failure_of(error)", "failure = _first(thread)"),
    ("failures", "failures = list(_failures.values())", "failures = list(_failures.values())[::-1]"),
    ("failures", "if run.has_places and", "if False and"),
    ("failures", " and not isinstance(error, MemoryLimitError)", ""),
    ("failures", "_first(thread, start) or failure_of(error)", "failure_of(error)"),
    ("failures", " and failure.when >= start", ""),
    ("failures", "return (*[1] * rank, number)", "return (number,)"),
    ("outputs", "next(numbers)", "0"),
    ("outputs", "if needed < LEAST_BYTES:", "if False:"),
    ("outputs", "if needed > MOST_BYTES:", "if False:"),
    ("outputs", "or memory.size < needed", ""),
    ("outputs", "_kept[self._number] = self._memory", "pass"),
    ("outputs", "_Memory(number, memory)", "memory"),
    ("op", "_registering = threading.RLock()", "_registering = threading.Semaphore(16)"),
    ("session", "_placing = threading.RLock()", "_placing = threading.Semaphore(16)"),
]  # fmt: skip


def survives(module: str, old: str, new: str, folder: Path) -> bool:
    """Whether all tests pass on a copy of the package in which ``old`` reads ``new``."""
    source = ROOT / "maxpool_ort" / f"{module}.py"
    text = source.read_text()
    if text.count(old) < 1:
        raise SystemExit(f"{module}.py no longer holds {old!r}; mend the table")
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis"))
    (folder / "maxpool_ort" / f"{module}.py").write_text(text.replace(old, new))
    names = sorted(TESTS.get(module, OPERATOR), key=lambda name: name != module)
    tests = [f"tests/test_{name}.py" for name in names]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "unshrunk"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode > 2:  # less than 0: the mutant ended the process
        raise SystemExit(f"the tests did not run:\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def main() -> int:
    """Try every mutant, or those of the modules that are named; 1 if one survives."""
    chosen = [mutant for mutant in MUTANTS if len(sys.argv) == 1 or mutant[0] in sys.argv[1:]]
    alive = 0
    for number, (module, old, new) in enumerate(chosen, start=1):
        with tempfile.TemporaryDirectory() as folder:
            lives = survives(module, old, new, Path(folder) / "copy")
        alive += lives
        print(f"{number:3} {'SURVIVED' if lives else 'killed  '} {module}: {old.strip()} -> {new.strip()}", flush=True)
    print(f"{len(chosen) - alive} of {len(chosen)} killed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
