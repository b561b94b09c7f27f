"""The commands about the operator: explain, conformance, bench."""

import argparse
from dataclasses import fields
from functools import partial

import numpy as np
from onnx import helper

from maxpool_ort.bench import apart, growth, machine, measure
from maxpool_ort.bench_models import measure_model
from maxpool_ort.commands.outcome import Outcome
from maxpool_ort.conformance import COMMAND, choose, default_kit, hold, read_kit
from maxpool_ort.conformance_report import as_document as conformance_document
from maxpool_ort.conformance_report import as_page, failures, summary
from maxpool_ort.conformance_report import from_document as conformance_from
from maxpool_ort.drawing import draw_explanations
from maxpool_ort.explain import explain as explain_attributes
from maxpool_ort.explain import explain_model
from maxpool_ort.files import read_model, write_whole
from maxpool_ort.report import Findings, as_document, check_plot, draw, from_document, tables
from maxpool_ort.runtimes import OURS
from maxpool_ort.schema import MaxPoolAttributes, type_name
from maxpool_ort.table import best_table, track
from maxpool_ort.telling import as_document as told
from maxpool_ort.telling import as_text
from maxpool_ort.workloads import cases

__all__ = ["bench", "conformance", "explain"]


def explain(options: argparse.Namespace) -> Outcome:
    """Explain MaxPool nodes; the exit code is 1 if an X is too small for a window."""
    names = [field.name for field in fields(MaxPoolAttributes)]
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    dims, dtype = options.input_shape, options.dtype
    element_type = dtype and type_name(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    if options.model:
        found = explain_model(
            read_model(options.model),
            options.node,
            changes=given,
            input_dims=dims,
            element_type=element_type,
            with_indices=options.with_indices,
        )
    elif dims is None or options.kernel_shape is None or options.node:
        options.refuse("name a MODEL, or give --input-shape and --kernel-shape, and no --node")
    else:
        attributes = MaxPoolAttributes(**given)
        found = [
            explain_attributes(
                attributes, dims, element_type=element_type or "float", with_indices=options.with_indices
            )
        ]
    if options.plot:
        draw_explanations(options.plot, found)
    text = as_text(found) + (f"\n\nwrote {options.plot}" if options.plot else "")
    return Outcome({"maxpool": list(map(told, found))}, text, 0 if all(each.fits for each in found) else 1)


def conformance(options: argparse.Namespace) -> Outcome:
    """Hold runtimes against the kit; the exit code is 1 if one that was asked for fails what the page decides."""
    if options.load:
        cases, held = conformance_from(options.load)
    else:
        cases = choose(read_kit(options.kit or default_kit()), options.case, options.feature)
        held = hold(cases, options.runtime, options.command_line, options.timeout)
    judged = {*options.runtime, *([COMMAND] if options.command_line else [])} or {OURS}
    failed = [(each, case, verdict) for each in held for case, verdict in failures(cases, each)]
    rows = [[e.runtime, c.name, "silent" if c.silent else "decides", v.outcome, v.detail] for e, c, v in failed]
    if options.html:
        page = as_page(cases, held).encode()
        write_whole(options.html, lambda file: file.write(page))
    parts = [
        ", ".join(f"{each.runtime} {each.version}".strip() for each in held),
        best_table(*summary(cases, held)),
        *([best_table(["runtime", "case", "the page", "outcome", "what it gave"], rows)] if rows else []),
        *([f"wrote {options.html}"] if options.html else []),
    ]
    is_bad = any(each.runtime in judged and not case.silent for each, case, _ in failed)
    return Outcome(conformance_document(cases, held), "\n\n".join(parts), int(is_bad))


def bench(options: argparse.Namespace) -> Outcome:
    """Measure, or show what was measured."""
    if options.plot:
        check_plot(options.plot)
    where, found = (
        from_document(options.load) if options.load else ({**machine(), "data": options.data}, _measure(options))
    )
    if options.plot:
        draw(options.plot, where, found.results)
    parts = [", ".join(f"{name} {version}" for name, version in where.items())]
    parts += [f"{title}\n{best_table(header, rows)}" for title, header, rows in tables(found)]
    parts += [f"wrote {options.plot}"] if options.plot else []
    return Outcome(as_document(where, found), "\n\n".join(parts))


def _measure(options: argparse.Namespace) -> Findings:
    models = [measure_model(path, options.pairs) for path in track(options.model, "models")] if options.model else []
    is_part = options.workload or options.dtype or options.outputs or options.peer
    if models and not is_part:
        return Findings(models=models)
    chosen = cases(
        workloads=options.workload,
        dtypes=options.dtype,
        outputs=options.outputs,
        threads=options.threads,
        peers=options.peer,
        data=options.data,
    )
    measured = apart(partial(measure, pairs=options.pairs), chosen)
    results = [result for _, result in zip(track(chosen, "measuring"), measured, strict=True)]
    grown = list(track(growth(options.pairs), "growth")) if options.growth or not is_part else []
    return Findings(results, grown, models)
