"""What --help says of each command: its description and its examples."""

EXAMPLES = """\
examples:
  maxpool-ort run models/digits.onnx
  maxpool-ort inspect model.onnx
  maxpool-ort explain model.onnx
  maxpool-ort compare model.onnx
  maxpool-ort convert model.onnx model-python.onnx
  maxpool-ort restore model-python.onnx model.onnx
  maxpool-ort conformance
  maxpool-ort bench --workload tiny

exit codes: 0 all is fine, 1 the work failed, compare found a difference,
conformance a failure or explain an X that is too small, 2 wrong usage
"""
RUN = """\
Run a model, every MaxPool in Python. Each input comes from the file that you
name; if you name none, from a sample file beside the model (the model's name
with .npz or, if it has one input, .npy or .pb); if there is none, from seeded
random data of the declared dtypes and shapes, unknown sizes being 1 (first)
and 16 (others). The file and the shapes are told.

A .npz sample holds an array for each input, and may hold an integer array
"label", an entry for each row of a first output of rank 2: then it is told in
how many rows the largest entry stands at the label.
"""
RUN_EXAMPLES = """\
examples:
  maxpool-ort run models/digits.onnx
  maxpool-ort run model.onnx --input image=cat.npy --output scores.npz
  maxpool-ort run model.onnx --seed 7 --json
"""
CONVERT_EXAMPLES = """\
example:
  maxpool-ort convert model.onnx model-python.onnx

A converted model runs in onnxruntime's own session, on whose SessionOptions
maxpool_ort.register was called.
"""
RESTORE_EXAMPLES = """\
example:
  maxpool-ort restore model-python.onnx model.onnx
"""
INSPECT_EXAMPLES = """\
examples:
  maxpool-ort inspect model.onnx
  maxpool-ort inspect model.onnx --json

"Y declared" is what the file says, if anything; "Y true" follows from X.
"""
EXPLAIN = """\
Say why Y has its shape: the output size of each axis with the numbers put
in, what would give another one, what ONNX Runtime's own MaxPool does
differently, and, drawn, which inputs each output sees. Of attributes and a
shape, or of the nodes of a MODEL; attributes, shape and dtype that you give
beside it take the place of the model's.
"""
EXPLAIN_EXAMPLES = """\
examples:
  maxpool-ort explain --input-shape 1,64,57,57 --kernel-shape 3,3 --strides 2,2
  maxpool-ort explain models/digits.onnx --node pool1
  maxpool-ort explain models/digits.onnx --node pool1 --ceil-mode 1
  maxpool-ort explain models/digits.onnx --plot windows.svg

Exits with 1 if an X is too small for a window.
"""
COMPARE_EXAMPLES = """\
examples:
  maxpool-ort compare models/digits.onnx
  maxpool-ort compare model.onnx --input image=cat.npy --json

Each MaxPool is compared on the X that the model gives it with ONNX Runtime's own
operators (those in bodies and functions: with ours); then the outputs of the
whole model, to rounding.
Exits with 1 if anything differs.
"""
BENCH = """\
Time whole runs of our operator against those of others, by turns in one
process, a new one for each workload, medians of 15 pairs (3, where the other
takes more than half a second). A time counts only if both sides gave the same.
All of it takes about half an hour; name workloads, dtypes and peers to see a
part, or models to time those.

peers: onnxruntime (its own MaxPool), border (a PyOp that returns a result that
is ready: what is left is what any operator in Python takes), textbook (a PyOp
of sliding_window_view and max), torch (max_pool1d, 2d and 3d, array against
array, if installed), reference (onnx.reference, the smallest workload only)
"""
BENCH_EXAMPLES = """\
examples:
  maxpool-ort bench --workload tiny
  maxpool-ort bench --peer onnxruntime --threads 1 --plot ratios.png
  maxpool-ort bench --model models/segnet.onnx
  maxpool-ort bench --json > results.json
  maxpool-ort bench --load results.json --plot ratios.svg
"""
CONFORMANCE = """\
Hold runtimes against test vectors for MaxPool-12: standard models, inputs, and
outputs that come from plain loops written from the operator's page. Where the
page is silent, cases are marked, and never decide the exit code. Without
--runtime and --command, all runtimes that are installed are tried; each runs
in a process of its own.

Exits with 1 if a runtime that you name (without names: ours) does not pass a
case that the page decides.
"""
CONFORMANCE_EXAMPLES = """\
examples:
  maxpool-ort conformance
  maxpool-ort conformance --runtime onnxruntime --feature ceil_mode
  maxpool-ort conformance --html conformance.html
  maxpool-ort conformance --command 'mine --model {model} --in {inputs} --out {outputs}'

{model} is a file, {inputs} a folder with input_0.pb, {outputs} a folder into
which the command writes output_0.pb (Y) and, where the model has Indices,
output_1.pb: TensorProto all of them. An exit code other than 0 is a refusal.
"""
