"""What runtimes made of the conformance kit, as tables, as a document and as one self-contained page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from html import escape
import json
from pathlib import Path
from string import Template
from typing import Any

from maxpool_ort.conformance import Case, Held, Outcome, Verdict
from maxpool_ort.errors import MaxPoolError

__all__ = ["as_document", "as_page", "failures", "from_document", "summary"]


def _groups(cases: Sequence[Case]) -> Iterator[tuple[str, list[Case]]]:
    """The cases of each feature; then all, parted by whether the page decides them."""
    for feature in dict.fromkeys(case.feature for case in cases):
        yield feature, [case for case in cases if case.feature == feature]
    yield "all that the page decides", [case for case in cases if not case.silent]
    yield "all where it is silent", [case for case in cases if case.silent]


def summary(cases: Sequence[Case], held: Sequence[Held]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: how many cases of each feature a runtime passes, of those that apply."""
    rows = [
        [title, *(_of(*each.score(group)) for each in held)] for title, group in _groups(cases) if group
    ]  # fmt: skip
    return ["feature", *(each.runtime for each in held)], rows


def _of(passed: int, count: int) -> str:
    return f"{passed}/{count}" if count else "-"


def failures(cases: Sequence[Case], held: Held) -> list[tuple[Case, Verdict]]:
    """What a runtime does not pass, in the order of the kit."""
    verdicts = [(case, held.verdicts[case.name]) for case in cases]
    return [(case, verdict) for case, verdict in verdicts if verdict.outcome not in {"pass", "n/a"}]


def as_document(cases: Sequence[Case], held: Sequence[Held]) -> dict[str, Any]:
    """What JSON holds of it: the cases, and of each runtime the outcomes, and details where there are some."""
    return {
        "cases": [{key: value for key, value in asdict(case).items() if key != "folder"} for case in cases],
        "runtimes": {
            each.runtime: {
                "version": each.version,
                "outcomes": {name: verdict.outcome for name, verdict in each.verdicts.items()},
                "details": {name: verdict.detail for name, verdict in each.verdicts.items() if verdict.detail},
            }
            for each in held
        },
    }


def from_document(path: str) -> tuple[list[Case], list[Held]]:
    """Read what ``--json`` printed.

    Raises
    ------
    OSError
        If the file cannot be read.
    MaxPoolError
        If it holds something else.
    """
    text = Path(path).read_text(encoding="utf-8")
    try:
        document = json.loads(text)
        cases = [Case(**row, folder=Path()) for row in document["cases"]]
        held = [
            Held(name, found["version"], {c.name: _verdict(c.name, **found) for c in cases})
            for name, found in document["runtimes"].items()
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise MaxPoolError(f"{path} must hold what conformance --json prints: {reason}") from error
    return cases, held


def _verdict(case: str, outcomes: Mapping[str, Outcome], details: Mapping[str, str], **_: str) -> Verdict:
    return Verdict(case, outcomes[case], details.get(case, ""))


_PAGE = Template("""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>MaxPool-12: who computes what</title>
<style>
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #57606a; --paper: #fff; --card: #f6f8fa; --line: #d0d7de;
  --good: #d5f0dc; --part: #fdf0c4; --bad: #fbd9d3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9aa4ae; --paper: #0d1117; --card: #161b22;
  --line: #30363d; --good: #12391f; --part: #463a10; --bad: #50201b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 75rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
.dim { color: var(--dim); }
.scores { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: .75rem; padding: 0;
  list-style: none; }
.scores li { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem; }
.scores a { font-weight: 600; color: inherit; }
meter { width: 100%; height: 1rem; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); white-space: normal;
  min-width: 9rem; }
tbody th { font-weight: 400; }
tr:last-child > * { border-bottom: 0; }
.good { background: var(--good); } .part { background: var(--part); } .bad { background: var(--bad); }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .75rem 0; background: var(--card); }
summary { cursor: pointer; padding: .75rem; font-weight: 600; }
article { border-top: 1px solid var(--line); padding: .6rem .75rem; background: var(--paper); }
article h3 { font-size: 1rem; margin: 0; }
article p { margin: .15rem 0; }
.tag { font-size: .8rem; font-weight: 400; border-radius: .25rem; padding: .1rem .4rem; white-space: nowrap; }
code { font: .9rem ui-monospace, monospace; }
</style>
<h1>MaxPool-12: who computes what</h1>
<p>$count test vectors for ONNX's MaxPool of operator version 12. What is expected comes from plain
loops written from the operator's page; dtype, shape and every element count, NaN is NaN. Where the page is silent,
cases are marked, and the answer is what this package has decided on.</p>
<ul class="scores">
$scores
</ul>
<h2>By feature</h2>
<p class="dim">Passed of those that apply. The page decides $decided cases and is silent on $silent.</p>
<div class="wide" tabindex="0" role="region" aria-label="Passed cases by feature and runtime">
<table>
<thead><tr>$header</tr></thead>
<tbody>
$rows
</tbody>
</table>
</div>
<h2>What is not passed</h2>
$details
</html>
""")


def as_page(cases: Sequence[Case], held: Sequence[Held]) -> str:
    """One HTML page that needs nothing else: scores, a table of features by runtimes, and each failure."""
    header, rows = summary(cases, held)
    decided = [case for case in cases if not case.silent]
    return _PAGE.substitute(
        count=len(cases),
        decided=len(decided),
        silent=len(cases) - len(decided),
        scores="\n".join(_score(each, decided, cases) for each in held),
        header="".join(f'<th scope="col">{escape(name)}</th>' for name in header),
        rows="\n".join(_row(row) for row in rows),
        details="\n".join(_details(each, failures(cases, each), len(cases)) for each in held),
    )


def _score(held: Held, decided: Sequence[Case], cases: Sequence[Case]) -> str:
    passed, count = held.score(decided)
    silent = _of(*held.score([case for case in cases if case.silent]))
    name = escape(held.runtime)
    return (
        f'<li><a href="#{name}">{name}</a> <span class="dim">{escape(held.version)}</span><br>'
        f'<meter min="0" max="{count}" value="{passed}" aria-label="{passed} of {count}"></meter><br>'
        f"{_of(passed, count)} that the page decides<br>{silent} where it is silent</li>"
    )


def _row(row: Sequence[str]) -> str:
    cells = "".join(f'<td class="{_shade(cell)}">{cell}</td>' for cell in row[1:])
    return f'<tr><th scope="row">{escape(row[0])}</th>{cells}</tr>'


def _shade(cell: str) -> str:
    passed, _, count = cell.partition("/")
    return "" if not count else "good" if passed == count else "part" if int(passed) else "bad"


def _details(held: Held, failed: Sequence[tuple[Case, Verdict]], count: int) -> str:
    name = escape(held.runtime)
    said = f"{len(failed)} of {count} not passed" if failed else "passes all that apply"
    articles = "\n".join(_article(case, verdict) for case, verdict in failed)
    return f'<details id="{name}"><summary>{name}: {said}</summary>\n{articles}\n</details>'


def _article(case: Case, verdict: Verdict) -> str:
    silent = f'<p class="dim">The page is silent on {escape(case.silent)}.</p>' if case.silent else ""
    shade = "part" if verdict.outcome == "refused" else "bad"
    return (
        f'<article><h3>{escape(case.name)} <span class="tag {shade}">{verdict.outcome}</span></h3>'
        f'<p>{escape(case.pins)} <span class="dim">({escape(case.source)})</span></p>'
        f"<p><code>{escape(verdict.detail)}</code></p>{silent}</article>"
    )
