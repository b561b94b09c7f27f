"""Drawn graphs that hold MaxPool nodes: what is true of every conversion, and of every run of what it gives."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import given, reject, settings
from hypothesis import strategies as st
import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, helper
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from oracle import Axis, assert_same, max_pool_oracle, output_size
import pytest
from versions import ORT

import maxpool_ort as mp

DTYPES = {"float": np.float32, "float16": np.float16, "double": np.float64, "int8": np.int8, "uint8": np.uint8}
SCALES = [np.float32(scale) for scale in (0.5, 0.25, 2)]  # exact in binary: nothing depends on how one rounds
PREFIXES = ["", "", "", "maxpool_ort/", "maxpool_ort/t0/"]
SUFFIXES = ["", "", "", "/cast", "/guard", "/type", "/quantize", "/zero_point", "/2"]
SIZE = 7
"""The greatest size along a spatial axis of a model's inputs."""

Env = dict[str, np.ndarray]


# What a graph gives, node by node: an interpreter for the few operators that are drawn.


@dataclass
class Interpreter:
    """Runs nodes by the oracle and NumPy; ``pools`` are the MaxPools that ran, by what each can be told by."""

    functions: Mapping[str, FunctionProto] = field(default_factory=dict)
    pools: list[tuple[Any, ...]] = field(default_factory=list)

    def run(self, nodes: Iterable[NodeProto], env: Env, given: Mapping[str, AttributeProto] | None = None) -> None:
        """Add to ``env`` what the nodes make; ``given`` are the attributes of the call that they are in."""
        for node in nodes:
            bound = [(given or {}).get(a.ref_attr_name) if a.ref_attr_name else a for a in node.attribute]
            names = [a.name for a in node.attribute]
            attributes = dict(zip(names, bound, strict=True))
            xs = [env[name] for name in node.input]
            if node.op_type == "If":
                body = attributes["then_branch" if xs[0] else "else_branch"].g
                outputs = self.body(body, {}, env)
            elif node.op_type == "Loop":
                outputs = xs[2:]
                for i in range(int(xs[0]) if xs[1] else 0):
                    body = attributes["body"].g
                    inputs = {v.name: x for v, x in zip(body.input, [np.array(i), xs[1], *outputs], strict=True)}
                    outputs = self.body(body, inputs, env)[1:]
            elif node.op_type in self.functions:
                outputs = self.call(self.functions[node.op_type], xs, attributes)
            else:
                values = {name: helper.get_attribute_value(a) for name, a in attributes.items() if a is not None}
                outputs = self.operator(node, xs, values)
            env.update((name, x) for name, x in zip(node.output, outputs, strict=False) if name)

    def body(self, graph: GraphProto, inputs: Env, outer: Env) -> list[np.ndarray]:
        """Run the body of a control flow."""
        env = {**outer, **inputs}
        self.run(graph.node, env)
        return [env[output.name] for output in graph.output]

    def call(
        self, function: FunctionProto, xs: list[np.ndarray], attributes: Mapping[str, AttributeProto]
    ) -> list[np.ndarray]:
        """Run a function."""
        env = dict(zip(function.input, xs, strict=True))
        self.run(function.node, env, {**{a.name: a for a in function.attribute_proto}, **attributes})
        return [env[name] for name in function.output]

    def operator(self, node: NodeProto, xs: list[np.ndarray], attributes: dict[str, Any]) -> tuple[np.ndarray, ...]:
        """Run one of ONNX's own operators."""
        x, *others = xs
        match node.op_type:
            case "MaxPool":
                self.pools.append((x.shape, x.tobytes(), any(node.output[1:]), str(sorted(attributes.items()))))
                texts = {name: value.decode() for name, value in attributes.items() if isinstance(value, bytes)}
                return max_pool_oracle(x, **{**attributes, **texts})
            case "DequantizeLinear":
                y = (x.astype(np.float32) - others[1].astype(np.float32)) * others[0]
            case "QuantizeLinear":
                dtype = others[1].dtype
                y = np.rint(x / others[0]) + others[1].astype(np.float32)
                y = np.clip(y, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
            case "Concat":
                y = np.concatenate(xs, axis=attributes["axis"])
            case other:
                y = {"Identity": np.array, "Relu": lambda x: np.maximum(x, 0), "Neg": np.negative, "Add": np.add}[
                    other
                ](*xs)
        return (y,)


# How graphs are drawn. Each tensor has a value from the moment it is drawn, which tells what may come next.


@dataclass(frozen=True)
class Drawn:
    """A model, what to feed it, and what all tensors of its own graph are in that run."""

    model: ModelProto
    feed: Env
    env: Env
    functions: Mapping[str, FunctionProto]

    def __repr__(self) -> str:
        """The model as text."""
        names = [(n.name, *n.output) for n in self.model.graph.node]
        feed = {name: (str(x.dtype), x.shape) for name, x in self.feed.items()}
        return f"{onnx.printer.to_text(self.model)}\nnodes: {names}\nfeed: {feed}"


@dataclass
class Scope:
    """A graph in the making; ``own`` are its tensors that a node may take, with ``env`` those around it."""

    model: "Models"
    env: Env
    nodes: list[NodeProto] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    unsure: set[str] = field(default_factory=set)
    """Tensors whose sizes do not follow from those of the inputs: behind control flow."""

    def add(self, op_type: str, inputs: list[str], outputs: list[str], **attributes: Any) -> list[str]:
        """Add a node, and run it."""
        draw = self.model.draw
        usual = ["", "", outputs[0], f"n{next(self.model.numbers)}"]
        name = draw(st.sampled_from([*usual, "same"] if self.model.has_equal_names else usual))
        domain = self.model.domain_of(op_type)
        node = helper.make_node(op_type, inputs, outputs, name=name, domain=domain, **attributes)
        self.env.update(self.model.constants)
        Interpreter(self.model.functions).run([node], self.env)
        self.nodes.append(node)
        made = [output for output in outputs if output]
        self.own += made
        if op_type in {"If", "Loop"} or not self.unsure.isdisjoint(inputs):
            self.unsure.update(made)
        return made

    def pick(self, accept: Callable[[np.ndarray], bool] = lambda _: True) -> str | None:
        """Choose a tensor that a node may take, the latest ones first."""
        names = [name for name in reversed(self.model.visible(self)) if accept(self.env[name])]
        return self.model.draw(st.sampled_from(names)) if names else None

    def sinks(self) -> list[str]:
        """Tensors that no node takes."""
        used = {name for node in self.nodes for name in _used(node)}
        return [name for name in self.own if name not in used]


def _used(node: NodeProto) -> Iterable[str]:
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _used(inner)
        yield from (output.name for output in attribute.g.output)


def is_data(x: np.ndarray) -> bool:
    """Whether a MaxPool can take a tensor."""
    return x.ndim > 2 and x.dtype != np.int64


@dataclass
class Models:
    """Draws one model."""

    draw: Any
    opset: int
    has_equal_names: bool
    is_static: bool
    numbers: Any = field(default_factory=count)
    functions: dict[str, FunctionProto] = field(default_factory=dict)
    constants: Env = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)

    def fresh(self) -> str:
        """A new name of a tensor, now and then one as a conversion gives it."""
        number = next(self.numbers)
        prefix, suffix = self.draw(st.sampled_from(PREFIXES)), self.draw(st.sampled_from(SUFFIXES))
        return f"{prefix}t{number}{suffix if prefix else ''}"

    def domain_of(self, op_type: str) -> str | None:
        """The domain of an operator, or of a function."""
        return "l" if op_type in self.functions else None

    def visible(self, scope: Scope) -> list[str]:
        """What nodes in a scope may take."""
        return [name for name, x in scope.env.items() if x.ndim > 2]

    def is_poolable(self, x: np.ndarray) -> bool:
        """Whether the opset's MaxPool takes a tensor."""
        return is_data(x) and (x.dtype.kind == "f" or self.opset >= 12)

    def value(self, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Small integers, with many ties."""
        rng = np.random.default_rng(self.draw(st.integers(0, 99)))
        return rng.integers(0 if np.dtype(dtype).kind == "u" else -9, 10, shape).astype(dtype)

    def attributes(self, sizes: tuple[int, ...]) -> dict[str, Any]:
        """Draw attributes of a MaxPool that the opset has, and that are legal for these sizes."""
        draw, rank = self.draw, len(sizes)
        ints = st.integers
        auto_pad = draw(st.sampled_from(["NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
        ceil_mode = draw(ints(0, 1)) if self.opset >= 10 else 0
        stride = draw(ints(1, 3))
        widest = draw(ints(0, 2)) if auto_pad == "NOTSET" else 0
        axes = []
        for size in sizes:
            dilation = draw(ints(1, 2)) if self.opset >= 10 else 1
            axis = Axis(size, draw(ints(1, 3)), stride, dilation, draw(ints(0, widest)), draw(ints(0, widest)))
            try:
                legal = output_size(axis, auto_pad, ceil_mode) > 0
            except ValueError:
                legal = False
            axes.append(axis if legal else Axis(size, 1, stride))
        values = {
            "strides": ([axis.stride for axis in axes], [1] * rank),
            "dilations": ([axis.dilation for axis in axes], [1] * rank),
            "pads": ([a.begin for a in axes] + [a.end for a in axes], [0] * 2 * rank),
            "auto_pad": (auto_pad, "NOTSET"),
            "ceil_mode": (ceil_mode, 0),
            "storage_order": (draw(ints(0, 1)) if self.opset >= 8 else 0, 0),
        }
        written = {name: value for name, (value, default) in values.items() if value != default}
        return {"kernel_shape": [axis.kernel for axis in axes], **written}

    # What adds something to a scope; each does nothing where it does not fit.

    def pool(self, scope: Scope) -> None:
        """A MaxPool with or without Indices, or with an empty name in their place."""
        x = scope.pick(self.is_poolable)
        if x is None:
            return
        outputs = [self.fresh()]
        if self.opset >= 8:
            outputs += self.draw(st.sampled_from([[], [], [""], [self.fresh()]]))
        scope.add("MaxPool", [x], outputs, **self.attributes(scope.env[x].shape[2:]))

    def glue(self, scope: Scope) -> None:
        """A node of one or two inputs between MaxPools."""
        x = scope.pick()
        if x is None:
            return
        value = scope.env[x]
        is_float = value.dtype.kind == "f" and self.opset >= 7  # ONNX Runtime has no older ones for all floats
        op_type = self.draw(st.sampled_from(["Identity", "Concat", *(["Relu", "Neg", "Add"] if is_float else [])]))
        if op_type in {"Concat", "Add"}:
            other = scope.pick(lambda y: (y.shape, y.dtype) == (value.shape, value.dtype)) or x
            attributes = {"axis": self.draw(st.integers(0, value.ndim - 1))} if op_type == "Concat" else {}
            scope.add(op_type, [x, other], [self.fresh()], **attributes)
        else:
            scope.add(op_type, [x], [self.fresh()])

    def quantize(self, scope: Scope) -> None:
        """A pair that quantizes around a MaxPool, or half of it; parameters may be equal or not."""
        x = (
            scope.pick(lambda x: is_data(x) and x.dtype in (np.float32, np.int8, np.uint8))
            if self.opset >= 10
            else None
        )
        if x is None:
            return
        dtype = scope.env[x].dtype
        integer = dtype if dtype.kind != "f" else self.draw(st.sampled_from([np.int8, np.uint8]))
        parameters = self.parameters(integer)
        if dtype.kind == "f":
            (x,) = scope.add("QuantizeLinear", [x, *parameters], [self.fresh()])
        (x,) = scope.add("DequantizeLinear", [x, *parameters], [self.fresh()])
        for _ in range(self.draw(st.integers(0, 2))):
            outputs = [self.fresh()] + ([self.fresh()] if self.draw(st.booleans()) else [])
            x = scope.add("MaxPool", [x], outputs, **self.attributes(scope.env[x].shape[2:]))[0]
        if self.draw(st.booleans()):
            other = parameters if self.draw(st.booleans()) else self.parameters(integer)
            scope.add("QuantizeLinear", [x, *other], [self.fresh()])

    def parameters(self, dtype: Any) -> list[str]:
        """A scale and a zero point, as initializers."""
        names = [f"c{next(self.numbers)}", f"c{next(self.numbers)}"]
        self.constants[names[0]] = np.array(self.draw(st.sampled_from(SCALES)))
        self.constants[names[1]] = np.array(self.draw(st.integers(0, 3)), dtype)
        return names

    def graph(self, scope: Scope, inputs: list[onnx.ValueInfoProto] | None = None) -> GraphProto:
        """A body of control flow, of one output, and of the inputs that a Loop's has."""
        for _ in range(self.draw(st.integers(1, 3))):
            self.draw(st.sampled_from([self.pool, self.pool, self.glue, self.quantize]))(scope)
        if not scope.own:
            scope.add("Identity", [scope.pick() or ""], [self.fresh()])
        return helper.make_graph(scope.nodes, "body", inputs or [], [])

    def branch(self, scope: Scope) -> None:
        """An If; its branches see what is around it, and put out tensors of one type and rank."""
        if self.opset < 11:  # before, ONNX Runtime wants branches of equal shapes
            return
        inner = [Scope(self, dict(scope.env)) for _ in range(2)]
        graphs = [self.graph(each) for each in inner]
        first = self.draw(st.sampled_from(inner[0].own))
        kind = (inner[0].env[first].dtype, inner[0].env[first].ndim)
        fitting = [name for name in inner[1].own if (inner[1].env[name].dtype, inner[1].env[name].ndim) == kind]
        if not fitting:
            inner[1], graphs[1], fitting = Scope(self, dict(scope.env)), None, []
            like = [n for n, x in scope.env.items() if (x.dtype, x.ndim) == kind]
            if not like:
                return
            fitting = inner[1].add("Identity", [like[0]], [self.fresh()])
            graphs[1] = helper.make_graph(inner[1].nodes, "body", [], [])
        for each, graph, name in zip(inner, graphs, (first, fitting[0]), strict=True):
            graph.output.append(self.declaration(name, each.env[name], is_exact=self.draw(st.booleans())))
            needed = _needed(graph)
            del graph.node[:]
            graph.node.extend(needed)
        scope.add("If", ["go"], [self.fresh()], then_branch=graphs[0], else_branch=graphs[1])

    def loop(self, scope: Scope) -> None:
        """A Loop of one round, which carries a tensor."""
        x = scope.pick(self.is_poolable)
        if x is None or self.opset < 11:
            return
        carried, i, ok, on = self.fresh(), *(f"l{next(self.numbers)}" for _ in range(3))
        inner = Scope(self, {**scope.env, carried: scope.env[x]})
        y, *_ = inner.add("MaxPool", [carried], [self.fresh()], **self.attributes(scope.env[x].shape[2:]))
        node = helper.make_node("Identity", [ok], [on])
        graph = helper.make_graph(
            [node, *inner.nodes],
            "body",
            [
                helper.make_tensor_value_info(i, onnx.TensorProto.INT64, []),
                helper.make_tensor_value_info(ok, onnx.TensorProto.BOOL, []),
                self.declaration(carried, scope.env[x], is_exact=False),
            ],
            [
                helper.make_tensor_value_info(on, onnx.TensorProto.BOOL, []),
                self.declaration(y, inner.env[y], is_exact=False),
            ],
        )
        scope.add("Loop", ["count", "go", x], [self.fresh()], body=graph)

    def call(self, scope: Scope) -> None:
        """A call of a function: one that is there, or a new one."""
        x = scope.pick(lambda x: self.is_poolable(x) and x.ndim == 3) if self.opset >= 10 else None
        if x is None:
            return
        if not self.functions or self.draw(st.booleans()):
            self.function()
        name = self.draw(st.sampled_from(sorted(self.functions)))
        attributes: dict[str, Any] = {"k": [self.draw(st.integers(1, 2))]}
        if self.draw(st.booleans()):
            attributes["s"] = [self.draw(st.integers(1, 2))]
        outputs = [self.fresh() for _ in self.functions[name].output]
        scope.add(name, [x], outputs, **attributes)

    def function(self) -> None:
        """A new function of one input and one or more outputs; all its windows fit in a row of one element."""
        draw, nodes, tensors, domains = self.draw, [], ["x"], {""}
        for number in range(draw(st.integers(1, 3))):
            x, y = draw(st.sampled_from(tensors)), f"y{number}"
            kinds = ["by reference", "fixed", "Identity", *(["call"] if self.functions else [])]
            kind = draw(st.sampled_from(["by reference", *kinds] if number == 0 else kinds))
            if kind == "call":
                called = draw(st.sampled_from(sorted(self.functions)))
                outputs = [y, *(f"{y}_{i}" for i in range(1, len(self.functions[called].output)))]
                node = helper.make_node(called, [x], outputs, domain="l")
                domains.add("l")
            elif kind == "Identity":
                outputs, node = [y], helper.make_node("Identity", [x], [y])
            else:
                outputs = [y, *draw(st.sampled_from([[], [f"{y}_i"]]))]
                node = helper.make_node(
                    "MaxPool",
                    [x],
                    outputs,
                    pads=[1, 1],
                    name=draw(st.sampled_from(["", f"p{0 if self.has_equal_names else number}"])),
                )
            if kind == "fixed":
                node.attribute.append(helper.make_attribute("kernel_shape", [draw(st.integers(1, 3))]))
            elif kind in {"by reference", "call"}:
                names = ("kernel_shape", "strides") if kind == "by reference" else ("k", "s")
                for each, reference in zip(names, "ks", strict=True):
                    node.attribute.append(AttributeProto(name=each, ref_attr_name=reference, type=AttributeProto.INTS))
            nodes.append(node)
            tensors += [name for name in outputs if not name.endswith("_i") and "_" not in name]
        used = {name for node in nodes for name in node.input}
        outputs = [name for node in nodes for name in node.output if name not in used]
        imports = [helper.make_opsetid(domain, 1 if domain else self.opset) for domain in sorted(domains)]
        name = f"f{next(self.numbers)}"
        self.functions[name] = helper.make_function("l", name, ["x"], outputs, nodes, imports, ["k", "s"])

    def declaration(self, name: str, x: np.ndarray, *, is_exact: bool, wrong: int = 0) -> onnx.ValueInfoProto:
        """Declare a tensor: with its sizes, with one size more or less, or with a name or nothing for some of them."""
        draw = self.draw
        dims: list[int | str | None] = list(x.shape)
        if not (is_exact and self.is_static):
            dims = [draw(st.sampled_from([None, f"d_{next(self.numbers)}"])) for _ in dims]
        if wrong:
            dims[draw(st.integers(2, len(dims) - 1))] += wrong
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), dims)


def _needed(graph: GraphProto) -> list[NodeProto]:
    """The nodes of a body that lead to its outputs."""
    wanted, nodes = {output.name for output in graph.output}, []
    for node in reversed(graph.node):
        if wanted & set(node.output):
            wanted.update(_used(node))
            nodes.insert(0, node)
    return nodes


@st.composite
def drawn_models(draw: st.DrawFn, *, has_equal_names: bool = False, is_static: bool | None = None) -> Drawn:
    """Draw a model of 1 to 6 steps, each of which adds a node, or a few; ONNX Runtime takes no equal names."""
    opset = draw(st.sampled_from([8, 10, 11, 12, 13, 15, 17, 19, 21, 22]))
    models = Models(draw, opset, has_equal_names, draw(st.booleans()) if is_static is None else is_static)
    rank = draw(st.integers(1, 2))
    types = [t for t in DTYPES if opset >= 12 or "int" not in t]
    feed: Env = {"go": np.array(draw(st.booleans())), "count": np.array(1)}
    sizes = draw(st.lists(st.integers(2, SIZE), min_size=rank, max_size=rank))
    for number in range(draw(st.integers(1, 2))):
        feed[f"X{number}"] = models.value(DTYPES[draw(st.sampled_from(types))], (draw(st.integers(1, 2)), 2, *sizes))
    scope = Scope(models, dict(feed))
    models.pool(scope)
    steps = [models.pool] * 4 + [models.glue] * 2 + [models.quantize, models.branch, models.loop, models.call]
    for _ in range(draw(st.integers(0, 5))):
        draw(st.sampled_from(steps))(scope)
    return _finished(draw, models, scope, feed)


def _finished(draw: st.DrawFn, models: Models, scope: Scope, feed: Env) -> Drawn:
    """Declare inputs, outputs and some of what lies between."""
    is_static = models.is_static
    used = {name for node in scope.nodes for name in _used(node)}
    inputs = [models.declaration(name, x, is_exact=is_static) for name, x in feed.items() if name in used]
    sinks = scope.sinks()
    extra = [name for name in scope.own if name not in sinks]
    sinks += draw(st.lists(st.sampled_from(extra), unique=True, max_size=2)) if extra else []
    declared = {}
    for name in scope.own:
        if name in sinks or draw(st.booleans()):
            kind = draw(st.sampled_from(["exact", "unknown", "wrong"]))
            if name in scope.unsure:
                kind = "unknown"  # ONNX Runtime may hold an If's output to one of its branches
            wrong = draw(st.sampled_from([-1, 1])) if kind == "wrong" and models.is_static else 0
            declared[name] = models.declaration(name, scope.env[name], is_exact=kind != "unknown", wrong=wrong)
    graph = helper.make_graph(
        scope.nodes,
        "main",
        inputs,
        [declared[name] for name in sinks],
        [onnx.numpy_helper.from_array(np.asarray(x), name) for name, x in models.constants.items() if name in used],
        value_info=[value for name, value in declared.items() if name not in sinks],
    )
    imports = [helper.make_opsetid("", models.opset), *([helper.make_opsetid("l", 1)] if models.functions else [])]
    model = helper.make_model(
        graph,
        opset_imports=imports,
        functions=list(models.functions.values()),
        ir_version=8 if models.opset > 12 or models.functions else 7,
    )
    return Drawn(model, {value.name: feed[value.name] for value in inputs}, scope.env, models.functions)


# What holds for every one of them.


def plain_session(model: ModelProto) -> onnxruntime.InferenceSession:
    """ONNX Runtime's own session of a converted model."""
    options = onnxruntime.SessionOptions()
    mp.register(options)
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options)
    except InvalidArgument as error:
        # Optimizing several QuantizeLinear and DequantizeLinear in a row; without any MaxPool, too.
        if ORT < (1, 32) and "is not a graph input, initializer, or output of a previous node" in str(error):
            reject()
        raise


def maxpools(graph: GraphProto | FunctionProto) -> list[NodeProto]:
    """The standard MaxPool nodes of a graph or function, and of the graphs inside it."""
    inner = [each for node in graph.node for a in node.attribute if a.type == a.GRAPH for each in maxpools(a.g)]
    return [node for node in graph.node if node.op_type == "MaxPool" and not node.domain] + inner


def passes(check: Callable[..., Any], model: ModelProto, **arguments: Any) -> bool:
    """Whether a check of onnx lets a model pass."""
    try:
        check(model, **arguments)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


@given(drawn_models(has_equal_names=True), st.data())
@settings(max_examples=150)
def test_there_and_back(drawn: Drawn, data: st.DataObject) -> None:
    """A conversion changes nothing that it is given, is told in full, is undone exactly, and takes steps of any size."""
    model = drawn.model
    before = model.SerializeToString()
    assert passes(onnx.checker.check_model, model)
    done = mp.convert_model(model)
    assert model.SerializeToString() == before
    onnx.checker.check_model(done.model)
    if passes(onnx.shape_inference.infer_shapes, model, strict_mode=True):
        onnx.shape_inference.infer_shapes(done.model, strict_mode=True)
    assert mp.restore_model(done.model).SerializeToString() == before
    assert mp.convert_model(done.model).model == done.model

    told = [*done.converted, *done.skipped]
    here = [each for each in told if each.where.startswith("graph 'main'")]
    assert len(here) == len(maxpools(model.graph))
    for node in (node for function in model.functions for node in maxpools(function)):
        assert any(each.node.endswith(repr(node.name or node.output[0])) for each in told if each not in here)
    assert all(each.reason == "nothing calls the function" for each in done.skipped)
    assert not maxpools(done.model.graph)

    names = sorted({node.name for part in (model.graph, *model.functions) for node in maxpools(part)})
    one = mp.convert_model(model, select=data.draw(st.lists(st.sampled_from(names), unique=True)))
    two = mp.convert_model(one.model)
    onnx.checker.check_model(one.model)
    onnx.checker.check_model(two.model)
    assert mp.convert_model(two.model).model == two.model
    assert mp.restore_model(one.model).SerializeToString() == before
    assert mp.restore_model(two.model).SerializeToString() == before


def assert_same_run(model: ModelProto, drawn: Drawn) -> None:
    """Run in a plain session; each MaxPool that must be ran once, and the outputs are the interpreter's."""
    interpreter, env = Interpreter(drawn.functions), dict(drawn.env)
    interpreter.run(drawn.model.graph.node, env)
    names = [output.name for output in model.graph.output]
    for session in (plain_session(model), mp.InferenceSession(model)):
        with mp.record_calls() as calls:
            outputs = session.run(None, drawn.feed)
        for name, got in zip(names, outputs, strict=True):
            assert_same(got, env[name], name)
        # ONNX Runtime merges equal nodes of equal inputs
        assert len(set(interpreter.pools)) <= len(calls) <= len(interpreter.pools)


@given(drawn_models(), st.data())
@settings(max_examples=150)
def test_runs(drawn: Drawn, data: st.DataObject) -> None:
    """What a converted model gives is what the oracle gives, with as many calls, and of the sizes that it declares."""
    names = sorted({node.name for part in (drawn.model.graph, *drawn.model.functions) for node in maxpools(part)})
    first = data.draw(st.lists(st.sampled_from(names), unique=True))
    done = mp.convert_model(mp.convert_model(drawn.model, select=first).model)
    assert_same_run(done.model, drawn)
    for value in (*done.model.graph.value_info, *done.model.graph.output):
        if value.name in drawn.env:
            dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim]
            if value.type.tensor_type.HasField("shape"):
                shape = drawn.env[value.name].shape
                assert len(dims) == len(shape), value.name
                assert [dim or size for dim, size in zip(dims, shape, strict=True)] == list(shape), value.name


@given(drawn_models(is_static=False), st.integers(1, SIZE))
@settings(max_examples=150)
def test_runs_of_other_sizes(drawn: Drawn, size: int) -> None:
    """Fed with another size, a model fails where a window does not fit, in either session, or gives what it must."""
    feed = {name: x[..., :size] if x.ndim else x for name, x in drawn.feed.items()}
    converted = mp.convert_model(drawn.model).model
    env = {**feed, **{t.name: onnx.numpy_helper.to_array(t) for t in converted.graph.initializer}}
    sessions = (plain_session(converted), mp.InferenceSession(drawn.model))
    try:
        Interpreter(drawn.functions).run(drawn.model.graph.node, env)
    except ValueError as error:
        if "negative output size" in str(error):
            for session, kind in zip(sessions, (Exception, mp.InvalidShapeError), strict=True):
                with pytest.raises(kind):
                    session.run(None, feed)
        return
    for session in sessions:
        for output, got in zip(converted.graph.output, session.run(None, feed), strict=True):
            assert_same(got, env[output.name], output.name)
