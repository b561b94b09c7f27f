"""Why one spatial axis has the output size that it has: the formulas with the numbers put in, and what windows see."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import gcd

from maxpool_ort.geometry import AutoPad, Axis, output_size
from maxpool_ort.schema import MaxPoolAttributes

__all__ = ["is_seen", "missing_window", "notes_on", "size_of", "without_input"]

_MOST = 2000
"""Positions and windows of an axis that are looked at; of longer ones as many, half of them from either end."""
_MOST_RUNS = 5
"""Of numbers, that a sentence lists."""


def size_of(axis: Axis, attributes: MaxPoolAttributes) -> Iterator[str]:
    r"""How the output size comes about, a formula a line, and what would give another one.

    >>> attributes = MaxPoolAttributes(kernel_shape=[3], strides=[2], pads=[1, 1])
    >>> print("\n".join(size_of(attributes.geometry((1, 1, 112)).axes[0], attributes)))
    floor((112 + 1 + 1 - 3) / 2) + 1 = floor(55.5) + 1 = 56
    ceil_mode 1 would give 57: window 56 starts at 111 and ends at 113, 1 beyond the pads
    57 outputs need 1 more input or pad
    """
    if axis.dilation > 1:
        yield f"extent = ({axis.kernel} - 1) * {axis.dilation} + 1 = {axis.extent}"
    yield from {AutoPad.NOTSET: _of_pads, AutoPad.VALID: _of_valid}.get(attributes.auto_pad, _of_same)(axis, attributes)
    if axis.output < 0:
        yield f"an output size must be >= 0: all inputs and pads together are too few for a window of {axis.extent}"


def _of_pads(axis: Axis, attributes: MaxPoolAttributes) -> Iterator[str]:
    """NOTSET: whatever pads there are."""
    span, stride, output = _span(axis), axis.stride, axis.output
    quotient = _decimal(span, stride)
    name, rounded = ("ceil", -(-span // stride)) if attributes.ceil_mode else ("floor", span // stride)
    yield (
        f"{name}(({axis.input} + {axis.pad_begin} + {axis.pad_end} - {axis.extent}) / {stride}) + 1 "
        f"= {name}({quotient}) + 1 = {rounded + 1}"
    )
    by_ceil, by_floor = -(-span // stride) + 1, span // stride + 1
    last = (by_ceil - 1) * stride - axis.pad_begin
    late = f"window {by_ceil - 1} would start at {last}, where there are no inputs any more"
    is_dropped = last >= axis.input
    if attributes.ceil_mode:
        if is_dropped:
            yield f"less 1 = {output}: {late}"
        same = "the same" if by_floor == output else f"{by_floor}"
        yield f"ceil_mode 0 would give {same}: floor({quotient}) + 1"
        return
    if by_ceil == output and not is_dropped:
        yield "ceil_mode 1 would give the same: the quotient is whole"
    elif is_dropped:
        yield f"ceil_mode 1 would give {_same_or(by_ceil - 1, output)}: ceil({quotient}) + 1 - 1, since {late}"
    elif by_ceil < 1:
        yield f"ceil_mode 1 would give {by_ceil}: ceil({quotient}) + 1"
    else:
        end = last + axis.extent - 1
        beyond = end - (axis.input + axis.pad_end - 1)
        yield (
            f"ceil_mode 1 would give {by_ceil}: window {by_ceil - 1} starts at {last} and ends at {end}, "
            f"{beyond} beyond the pads"
        )
    yield _needs(axis, ("input or pad", "inputs or pads"))


def _of_valid(axis: Axis, attributes: MaxPoolAttributes) -> Iterator[str]:
    """VALID: no pads."""
    quotient = _decimal(axis.input - axis.extent + 1, axis.stride)
    yield f"ceil(({axis.input} - {axis.extent} + 1) / {axis.stride}) = ceil({quotient}) = {axis.output}"
    if attributes.ceil_mode:
        yield "ceil_mode 1 changes nothing: VALID has a formula of its own"
    same = output_size(axis.input, axis.extent, axis.stride, 0, 0, AutoPad.SAME_UPPER, 0)
    yield f"SAME_UPPER and SAME_LOWER would give {_same_or(same, axis.output)}"
    yield _needs(axis, ("input", "inputs"))


def _of_same(axis: Axis, attributes: MaxPoolAttributes) -> Iterator[str]:
    """SAME: as many outputs as strides fit into the input, and the pads that these need."""
    size, stride, output, extent = axis.input, axis.stride, axis.output, axis.extent
    yield f"ceil({size} / {stride}) = ceil({_decimal(size, stride)}) = {output}"
    total = axis.pad_begin + axis.pad_end
    where = {AutoPad.SAME_UPPER: "end", AutoPad.SAME_LOWER: "beginning"}[attributes.auto_pad]
    odd = f" (the odd one at the {where}: {attributes.auto_pad.value})" if total % 2 else ""
    yield (
        f"pads = max(0, ({output} - 1) * {stride} + {extent} - {size}) = {total}: "
        f"{axis.pad_begin} at the beginning, {axis.pad_end} at the end{odd}"
    )
    if attributes.ceil_mode:
        yield f"ceil_mode 1 changes nothing: {attributes.auto_pad.value} has a formula of its own"
    valid = output_size(size, extent, stride, 0, 0, AutoPad.VALID, 0)
    yield f"VALID would give {_same_or(valid, output)}" if valid >= 0 else "VALID would give none: X is too small"


def _span(axis: Axis) -> int:
    """How far the first window can be moved without leaving the pads."""
    return axis.input + axis.pad_begin + axis.pad_end - axis.extent


def _needs(axis: Axis, what: tuple[str, str]) -> str:
    """What one output more would need."""
    more = max(axis.output, 0)
    missing = more * axis.stride - _span(axis)
    outputs = "1 output needs" if more == 0 else f"{more + 1} outputs need"
    return f"{outputs} {missing} more {what[missing > 1]}"


def _same_or(other: int, output: int) -> str:
    return "the same" if other == output else str(other)


def _decimal(dividend: int, divisor: int) -> str:
    """A quotient as a decimal number, of at most three digits behind the point.

    >>> _decimal(111, 2), _decimal(-4, 2), _decimal(-1, 3)
    ('55.5', '-2', '-0.333...')
    """
    thousandths = Fraction(abs(dividend) * 1000, divisor)
    whole, digits = divmod(int(thousandths), 1000)
    text = f"{whole}.{digits:03}"
    text = f"{text}..." if thousandths.denominator > 1 else text.rstrip("0").rstrip(".")
    return f"-{text}" if dividend < 0 else text


def missing_window(axis: Axis, auto_pad: AutoPad) -> int | None:
    """The window that would come next, if a part of it would still lie in X and its pads or ceil_mode counts it.

    >>> missing_window(Axis.of(6, 2, stride=2), AutoPad.NOTSET), missing_window(Axis.of(7, 2, stride=2), AutoPad.NOTSET)
    (None, 3)
    """
    if auto_pad in (AutoPad.SAME_UPPER, AutoPad.SAME_LOWER):
        return None
    left_over = _span(axis) - (axis.output - 1) * axis.stride
    return max(axis.output, 0) if axis.output <= 0 or left_over > 0 else None


def is_seen(axis: Axis, position: int) -> bool:
    """Whether a window has a tap at a position: whether o * stride + t * dilation comes to it.

    >>> [is_seen(Axis.of(7, 2, stride=3), position) for position in range(7)]
    [True, True, False, True, True, False, False]
    """
    from_first = position + axis.pad_begin
    common = gcd(axis.stride, axis.dilation)
    if axis.output <= 0 or from_first % common:
        return False
    # Taps that come to it, for whatever integer o, are one in each `period`; o falls as t grows.
    period = axis.stride // common
    residue = from_first // common * pow(axis.dilation // common, -1, period) % period
    least = max(0, -(((axis.output - 1) * axis.stride - from_first) // axis.dilation))
    tap = least + (residue - least) % period
    return tap < axis.kernel and tap * axis.dilation <= from_first


def without_input(axis: Axis, window: int) -> bool:
    """Whether a window has all its taps in padding."""
    return not axis.window(window)


def notes_on(axis: Axis) -> Iterator[str]:
    """What is worth knowing of the windows: inputs that none sees, windows that see none, windows beyond the pads.

    >>> list(notes_on(Axis.of(7, 2, stride=3)))
    ['no window sees inputs 2, 5 to 6']
    """
    if axis.output <= 0:
        return
    beyond = (axis.output - 1) * axis.stride - axis.pad_begin + axis.extent - (axis.input + axis.pad_end)
    if beyond > 0:
        yield f"window {axis.output - 1} reaches {beyond} beyond the pads, which ceil_mode allows"
    unseen = _listed("input", axis.input, lambda position: not is_seen(axis, position))
    if unseen:
        yield f"no window sees {unseen}"
    of_padding = _listed("window", axis.output, lambda window: without_input(axis, window))
    if of_padding:
        yield f"padding only: {of_padding}; Y is the lowest value there, Indices -1"


def _listed(what: str, size: int, holds: Callable[[int], bool]) -> str:
    """The numbers below a size for which something holds, with their name; of very many only those at either end."""
    looked_at: Sequence[range] = [range(size)]
    if size > _MOST:
        looked_at = [range(_MOST // 2), range(size - _MOST // 2, size)]
    runs: list[range] = []
    for number in (number for part in looked_at for number in part if holds(number)):
        if runs and runs[-1].stop == number:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    count = sum(map(len, runs))
    if not count:
        return ""
    shown = [f"{run.start} to {run.stop - 1}" if len(run) > 1 else str(run.start) for run in runs]
    if len(runs) > _MOST_RUNS:
        shown = [*shown[: _MOST_RUNS - 1], "...", f"{shown[-1]}, {count} in all"]
    among = f" (of the first and the last {_MOST // 2})" if size > _MOST else ""
    return f"{what}{'s' * (count > 1)} {', '.join(shown)}{among}"
