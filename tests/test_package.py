"""The package as a whole: its order of imports, its public names, and documents that say what the code says."""

import ast
from importlib import metadata
import inspect
import os
from pathlib import Path
import re
import shlex
import subprocess
import sys

import pytest

import maxpool_ort as mp
from maxpool_ort import commands
from maxpool_ort.options import make_parser

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PACKAGE = ROOT / "maxpool_ort"


def code_map() -> list[str]:
    """The modules in README's code map, in its order; a folder, which is its __init__, comes after what is in it."""
    lines = README.partition("```\nmaxpool_ort/\n")[2].partition("\ntests/")[0].splitlines()
    names: list[str] = []
    folder = ""
    for line in lines:
        indent, name, kind = re.match(r"( +)(\w+)(\.py|/) ", line).groups()
        if folder and len(indent) == 2:
            names.append(folder)
            folder = ""
        if kind == "/":
            folder = name
        else:
            names.append(f"{folder}.{name}" if folder else name)
    return names


CODE_MAP = code_map()


def path_of(module: str) -> Path:
    """The file of a module."""
    path = PACKAGE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def test_the_code_map_names_every_module() -> None:
    """README's code map is the file list, in an order of its own."""
    files = {
        path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem not in {"__init__", "__main__"}
    }
    assert len(CODE_MAP) == len(set(CODE_MAP))
    assert {path_of(module) for module in CODE_MAP} == files


def test_the_code_map_names_every_script() -> None:
    """The map has what lies in scripts/, and nothing that does not."""
    told = README.partition("\nscripts/ ")[2].partition("\n.ci/run")[0]
    assert set(re.findall(r"(\w+\.py)", told)) == {path.name for path in (ROOT / "scripts").glob("*.py")}


def test_the_top_level_is_what_the_map_says() -> None:
    """Folders at the top level are those of the map."""
    told = README.partition("\n## Code map\n")[2].partition("\n## ")[0]
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout  # noqa: S607
    folders = {line.partition("/")[0] for line in tracked.splitlines() if "/" in line} or {"tests", "maxpool_ort"}
    assert folders - {".github"} <= {line.partition("/")[0] for line in told.splitlines()}


@pytest.mark.parametrize("module", CODE_MAP)
def test_a_module_imports_only_from_above_it(module: str) -> None:
    """In the code map, imports point upwards, wherever in the module they stand."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path_of(module).read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "maxpool_ort":
            source = (node.module or "").partition(".")[2]
            names = {f"{source}.{alias.name}".strip(".") for alias in node.names}
            imported |= names & set(CODE_MAP) or {source}
        assert not (isinstance(node, ast.ImportFrom) and node.level), "no relative imports"
    assert imported - {""} <= set(CODE_MAP[: CODE_MAP.index(module)])


def test_one_module_imports_onnxruntime_extensions() -> None:
    """PyOp's oddities live in op.py alone."""
    importers = [path.name for path in PACKAGE.rglob("*.py") if "onnxruntime_extensions import" in path.read_text()]
    assert importers == ["op.py"]


@pytest.mark.parametrize("name", mp.__all__)
def test_public_names_are_documented(name: str) -> None:
    """Every public name has a docstring, and public functions say what they raise and show an example."""
    thing = getattr(mp, name)
    doc = inspect.getdoc(thing)
    assert doc
    if inspect.isfunction(thing) and name not in {"convert_file", "restore_file", "record_calls", "failure_of"}:
        assert "Raises\n------" in doc
        assert ">>> " in doc


def test_the_version_is_one() -> None:
    """The package, its metadata and the command line say the same."""
    assert metadata.version("maxpool_ort") == mp.__version__
    command = [sys.executable, "-m", "maxpool_ort", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    assert mp.__version__ in said


def readme_blocks(language: str) -> list[str]:
    """The code blocks of README in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", readme_blocks("python"))
def test_python_in_the_readme_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Python example runs as it stands, in a folder that has models/, and its ``# ->`` comments are true."""
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102 (our own README)
    claims = re.findall(r"^(?:print\()?(.+?)\)?  # -> (.+)$", block, re.MULTILINE)
    assert claims
    for expression, expected in claims:
        assert str(eval(expression, names)) == expected  # noqa: S307


def test_commands_in_the_readme_are_what_ci_runs() -> None:
    """The set-up, the main job and the tests, as the README has them, stand in .ci/run word for word."""
    ci = (ROOT / ".ci" / "run").read_text()
    commands = [line for block in readme_blocks("console")[:2] for line in block.splitlines()]
    assert len(commands) == 2
    assert set(commands) <= set(ci.splitlines())


@pytest.mark.parametrize("line", [line for block in readme_blocks("console")[2:] for line in block.splitlines()])
def test_commands_in_the_readme_run(line: str, tmp_path: Path) -> None:
    """Each further command line exits with 0, in a folder that has models/."""
    (tmp_path / "models").symlink_to(ROOT / "models")
    assert line.startswith("maxpool-ort ")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for prepare in ("convert models/digits.onnx digits-python.onnx",):
        subprocess.run([sys.executable, "-m", "maxpool_ort", *prepare.split()], cwd=tmp_path, check=True)  # noqa: S603
    subprocess.run(line, shell=True, cwd=tmp_path, env=environment, check=True, capture_output=True)  # noqa: S602


EXAMPLES = re.findall(r"^  (maxpool-ort .+)$", (PACKAGE / "manual.py").read_text(), re.MULTILINE)


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_of_the_help_are_commands(line: str) -> None:
    """Each line that --help shows is one that the command line takes, up to where its output goes."""
    assert len(EXAMPLES) > 20
    make_parser().parse_args(shlex.split(line.partition(" > ")[0])[1:])


def test_every_command_is_in_the_readme() -> None:
    """README's list of commands has each one that --help has."""
    told = {line.split()[1] for block in readme_blocks("console") for line in block.splitlines() if line[:3] == "max"}
    assert told == set(commands.__all__) - {"Outcome"}


def test_no_path_of_a_machine() -> None:
    """Nothing that is committed as text names a folder of the machine it was written on."""
    texts = [*PACKAGE.rglob("*.py"), *(ROOT / "tests").glob("*.py"), *(ROOT / "scripts").glob("*"), ROOT / "README.md"]
    home = str(Path.home()).encode()
    assert [path.name for path in texts if path.is_file() and home in path.read_bytes()] == []
