"""The documentation is true: examples run, commands parse, tables and pictures are those of the code.

Parts between `<!-- written: NAME -->` and `<!-- end -->` are made from the code; `make docs` updates them.
"""

from __future__ import annotations

import ast
import json
import math
import re
import shlex
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import recall_loop
from recall_loop.cli.main import VERBS, build_parser, main
from recall_loop.graph.builder import build_graph
from recall_loop.memory.search.scoring.fusion import (
    COSINE_MIDDLE,
    COSINE_SLOPE,
    NEIGHBOUR_SHARE,
    NON_CONTENT_SHARE,
    SESSION_WEIGHT,
    SPEAKER_WEIGHT,
    TOOL_FACTOR,
)
from recall_loop.policy.confidence.confidence_score import COMPONENT_WEIGHTS, IDENTITY_CALIBRATION_ID
from recall_loop.service.core.config import SERVICE_ENV_PREFIX as SERVICE_PREFIX
from recall_loop.service.core.config import ServiceConfig
from recall_loop.state.agent_state import InputState, ResultState
from recall_loop.state.result import RetrieveResult
from recall_loop.state.schemas.schema_words import describe_schema
from recall_loop.state.settings.settings import ENV_PREFIX, Settings
from recall_loop.state.types import QuerySource, StopReason, Strategy

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
README, CONFIGURATION = ROOT / "README.md", ROOT / "docs" / "configuration.md"
OPERATIONS = ROOT / "docs" / "operations.md"
README_KNOBS = (
    "store_path",
    "tenant",
    "embedder",
    "max_facts",
    "max_iterations",
    "early_stop_min_iterations",
    "novelty_patience",
    "novelty_min_similarity",
    "deadline_seconds",
    "max_context_tokens",
)

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"^<!-- not run: \S.+ -->\n```\w+\n.*?^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`(\w+\.jsonl)`[.:]\n\n```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ANY_FENCE = re.compile(r"^ *```(.*)$", re.MULTILINE)
# What is done with a block of each language; one in another language must say why nothing is.
LANGUAGES = {
    "python": "run",
    "sh": "parsed",
    "console": "parsed",
    "bash": "parsed",
    "json": "read",
    "toml": "read",
    "mermaid": "made from the code",
    "text": "a listing: there is nothing to run",
}
_WRITTEN = re.compile(r"(<!-- written: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
_REQUIREMENT = re.compile(r"\s*\([A-Z]+-\d+\)")
_ASSIGNMENT = re.compile(r"[A-Z_]+=")
_OPERATORS = frozenset("&|;()<>")


def blocks(page: Path, *languages: str) -> list[str]:
    """Return the code blocks of a page in one of `languages`, without those marked as not run."""
    found = _FENCE.findall(_NOT_RUN.sub("", page.read_text(encoding="utf-8")))
    return [textwrap.dedent(code) for language, code in found if language in languages]


def names(pages: list[Path]) -> list[str]:
    return [page.relative_to(ROOT).as_posix() for page in pages]


# Examples


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the files that the examples name."""
    turns = [
        {"id": f"t{at}", "collection": "c", "kind": "message", "speaker": "Ada", "text": text, "session": "1"}
        for at, text in enumerate(["The ferry leaves at nine.", "Bread is sold at the harbour office."])
    ]
    question = {
        "id": "q1",
        "collection": "c",
        "question": "When does the ferry leave?",
        "category": "one",
        "gold": ["t0"],
    }
    folder = tmp_path / "path" / "to" / "set"
    (folder / "turns").mkdir(parents=True)
    write_lines(folder / "turns" / "c.jsonl", turns)
    write_lines(folder / "questions.jsonl", [question])
    write_lines(tmp_path / "chat.jsonl", [{"kind": "message", "text": "The ferry leaves at nine.", "author": "Ada"}])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_lines(path: Path, items: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(item)}\n" for item in items), encoding="utf-8")


def run_examples(page: Path) -> dict[str, Any]:
    """Run the Python examples of a page, one after another in one namespace, and return it."""
    namespace: dict[str, Any] = {"__name__": f"example_{page.stem}"}
    for number, code in enumerate(blocks(page, "python"), start=1):
        exec(compile(code, f"{page.name}, example {number}", "exec", dont_inherit=True), namespace)
    return namespace


@pytest.fixture
def closing() -> Iterator[Callable[[dict[str, Any]], None]]:
    """Close the stores that examples leave open."""
    kept: list[dict[str, Any]] = []
    yield kept.append
    for namespace in kept:
        for value in namespace.values():
            if isinstance(value, recall_loop.MemoryStore):
                value.close()


PYTHON_PAGES = [page for page in PAGES if blocks(page, "python")]


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=names(PYTHON_PAGES))
def test_python_examples_run(page: Path, desk: Path, closing: Callable[[dict[str, Any]], None]) -> None:
    """Proves: OPS-2 (what the documentation shows works as shown; a failing `assert` in an example fails here)."""
    closing(run_examples(page))


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", [*PYTHON_PAGES, *EXAMPLES], ids=names([*PYTHON_PAGES, *EXAMPLES]))
def test_examples_import_only_public_names(path: Path) -> None:
    """Proves: OPS-2 (whoever copies an example depends on nothing that may move)."""
    text = path.read_text(encoding="utf-8")
    codes = (
        [text] if path.suffix == ".py" else [code for language, code in _FENCE.findall(text) if language == "python"]
    )
    for node in (node for code in codes for node in ast.walk(ast.parse(code))):
        if isinstance(node, ast.Import):
            assert not [alias.name for alias in node.names if alias.name.startswith("recall_loop.")]
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "recall_loop":
            assert node.module == "recall_loop"
            assert {alias.name for alias in node.names} <= set(recall_loop.__all__)


# Commands


def commands(page: Path) -> list[list[str]]:
    """Return the simple commands of a page's shell examples, without environment variables and redirections."""
    found: list[list[str]] = []
    for code in blocks(page, "sh", "console", "bash"):
        for line in code.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            current: list[str] = []
            for token in [*lexer, ";"]:
                if set(token) <= _OPERATORS:
                    found.append(current)
                    current = []
                elif current or not _ASSIGNMENT.match(token):
                    current.append(token)
    return [command for command in found if command]


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_commands_parse(page: Path) -> None:
    """Proves: OPS-2 (verbs, options and values in the documentation are those of the command)."""
    parser = build_parser(list(VERBS))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for command in commands(page):
        program = command[0].rpartition("/")[2]
        if program == "recall-loop" and "--help" not in command:
            parser.parse_args(command[1:])
        elif program == "make":
            assert command[1] in targets


def test_commands_are_found() -> None:
    """The reader of shell examples reads them: else the test above would prove nothing."""
    said = [command[1] for command in commands(README) if command[0].endswith("recall-loop")]
    assert said[0] == "demo"
    assert set(said) == set(VERBS)
    assert ["python", "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile"] in [
        [command[0].rpartition("/")[2], *command[1:]] for command in commands(README)
    ]


def test_the_quickstart_works(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: OPS-2 (with the files that the page shows, its commands end well, one after the other)."""
    page = ROOT / "docs" / "quickstart.md"
    text = page.read_text(encoding="utf-8")
    for name, content in _FILE.findall(text):
        (desk / name).write_text(content, encoding="utf-8")
    shown = _SHOWN.findall(text)
    ran = [command for command in commands(page) if command[0] == "recall-loop"]
    assert [shlex.split(command) for command, _ in shown] == ran
    assert [command[1] for command in ran] == ["ingest", "ingest", "retrieve", "batch"]
    for command, output in shown:
        assert main(shlex.split(command)[1:]) == 0
        assert_printed(output, capsys.readouterr().out)
    (expected,) = re.findall(r"^```python\n.*?^```\n\n```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    run_examples(page)
    assert_printed(expected, capsys.readouterr().out)


_SHOWN = re.compile(r"^```console\n\$ (recall-loop [^\n]*)\n```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FIGURE = re.compile(r"\d+\.\d+|\d+(?= ms)|[█░]+")


def assert_printed(expected: str, printed: str) -> None:
    """Check an output that a page shows, figures aside; a line with … stands for any lines."""
    rest = _FIGURE.sub("#", printed)
    for part in filter(None, _FIGURE.sub("#", expected).split("…\n")):
        before, found, rest = rest.partition(part)
        assert found == part, f"not printed after {before[-300:]!r}:\n{part}"


# Every block


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_every_block_is_looked_at(page: Path) -> None:
    """Proves: OPS-2 (a block is run, parsed, read or made by a test, or says why not)."""
    text = _NOT_RUN.sub("", page.read_text(encoding="utf-8"))
    opened = _ANY_FENCE.findall(text)[::2]
    assert set(opened) <= set(LANGUAGES), f"{page.name}: {set(opened) - set(LANGUAGES)}"
    assert len(opened) == len(_FENCE.findall(text)), f"{page.name}: a block begins or ends inside a line"
    for code in blocks(page, "json"):
        read_json(code)
    for code in blocks(page, "toml"):
        tomllib.loads(code)


def read_json(code: str) -> None:
    """Read a block as one value, or as one a line."""
    try:
        json.loads(code)
    except ValueError:
        for line in code.splitlines():
            json.loads(line)


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    listed = {target for target, _ in _LINK.findall(index)}
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}


# Parts made from the code


def graph_picture() -> str:
    """The graph as LangGraph draws it."""
    return f"```mermaid\n{build_graph().get_graph().draw_mermaid()}```\n"


def service_table() -> str:
    """Every setting of the service with its variable, default, range and meaning; not those that only workers get."""
    schema = ServiceConfig.model_json_schema()
    rows = ["| setting | variable | default | allowed | meaning |", "|---|---|---|---|---|"]
    for name, part in schema["properties"].items():
        meaning = part["description"]
        if meaning.startswith("Set for workers"):
            continue
        default = "none" if part.get("default") in (None, []) else f"`{json.dumps(part['default']).strip(chr(34))}`"
        words = describe_schema(part, schema)
        rows.append(f"| `{name}` | `{SERVICE_PREFIX}{name.upper()}` | {default} | {words} | {meaning} |")
    return "\n".join(rows) + "\n"


def settings_table(chosen: tuple[str, ...]) -> str:
    """Every given setting with its variables, default, range and meaning."""
    schema = Settings.model_json_schema(by_alias=False)
    rows = ["| setting | variable | default | allowed | meaning |", "|---|---|---|---|---|"]
    for name in chosen:
        part = schema["properties"][name]
        variables = [f"`{ENV_PREFIX}{name.upper()}`"]
        variables += [f"`{name.upper()}`"] if name.upper() in Settings.BARE_NAMES else []
        default = part.get("default")
        shown = "none" if default is None else f"`{default}`"
        words = describe_schema(part, schema)
        meaning = _REQUIREMENT.sub("", part["description"])
        rows.append(f"| `{name}` | {', '.join(variables)} | {shown} | {words} | {meaning} |")
    return "\n".join(rows) + "\n"


def shortened_result() -> str:
    """The result of the README's request, without empty fields, all but one fact and some counters."""
    namespace = run_examples(README)
    result: RetrieveResult = namespace["result"]
    namespace["store"].close()
    whole = result.model_dump(mode="json")
    counters = ("iterations", "new_facts_by_iteration", "uncovered", "queries_executed", "strategies_used")
    whole["facts"] = [{key: value for key, value in whole["facts"][0].items() if value not in (None, [])}]
    whole["metadata"] = {name: whole["metadata"][name] for name in counters}
    return f"```json\n{json.dumps(rounded(whole), indent=2, ensure_ascii=False)}\n```\n"


def rounded(value: Any) -> Any:
    """Return `value` with every float at two digits."""
    if isinstance(value, float):
        return round(value, 2)
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def alike(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are equal; floats within 0.05: processors round the embedder differently."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, abs_tol=0.05)
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def same_json(one: str, other: str) -> bool:
    bodies = [_FENCE.search(text) for text in (one, other)]
    return all(bodies) and alike(*(json.loads(body[2]) for body in bodies if body))


WRITTEN: dict[tuple[Path, str], Callable[[], str]] = {
    (README, "graph"): graph_picture,
    (ROOT / "docs" / "concepts.md", "graph"): graph_picture,
    (README, "settings"): lambda: settings_table(README_KNOBS),
    (README, "result"): shortened_result,
    (OPERATIONS, "service"): service_table,
    (CONFIGURATION, "settings"): lambda: settings_table(tuple(Settings.model_fields)),
}


@pytest.mark.parametrize(("page", "name"), WRITTEN, ids=[f"{page.stem}-{name}" for page, name in WRITTEN])
def test_parts_made_from_the_code_are_up_to_date(
    page: Path, name: str, desk: Path, request: pytest.FixtureRequest
) -> None:
    """Proves: LOOP-1 (nodes and edges), STOP-4 (names, defaults and ranges of the knobs), OPS-1 (the result)."""
    text, expected = page.read_text(encoding="utf-8"), WRITTEN[page, name]()
    if request.config.getoption("--update-snapshots"):
        text = _WRITTEN.sub(lambda part: f"{part[1]}{expected}{part[4]}" if part[2] == name else part[0], text)
        page.write_text(text, encoding="utf-8")
    found = {part[2]: part[3] for part in _WRITTEN.finditer(text)}[name]
    equal = same_json(found, expected) if name == "result" else found == expected
    assert equal, f"{page.name}, {name}: out of date; run `make docs` and read the difference"


def test_every_written_part_is_checked() -> None:
    found = {(page, part[2]) for page in PAGES for part in _WRITTEN.finditer(page.read_text(encoding="utf-8"))}
    assert found == set(WRITTEN)


# What pages say about the code


def first_column(page: Path, heading: str) -> list[str]:
    """Return the names in the first column of the table under a header row that begins with `heading`."""
    _, found, rest = page.read_text(encoding="utf-8").partition(f"| {heading} |")
    assert found, f"{page.name}: no table of {heading}"
    rows = rest.split("\n")[2:]
    table = rows[: next(at for at, row in enumerate(rows) if not row.startswith("|"))]
    return [row.split("|")[1].strip().strip("`") for row in table]


@pytest.mark.parametrize(
    ("page", "heading", "expected"),
    [
        ("README.md", "stop reason", list(StopReason)),
        ("docs/loop.md", "stop reason", list(StopReason)),
        ("docs/loop.md", "strategy", list(Strategy)),
        ("docs/loop.md", "source", list(QuerySource)),
        ("docs/confidence.md", "component", list(COMPONENT_WEIGHTS)),
        ("README.md", "verb", list(VERBS)),
        ("docs/cli.md", "verb", list(VERBS)),
    ],
)
def test_tables_are_complete(page: str, heading: str, expected: list[str]) -> None:
    """Proves: STOP-2, LOOP-7, CONF-2 (names, and their order)."""
    assert first_column(ROOT / page, heading) == [str(name) for name in expected]


@pytest.mark.parametrize(("word", "schema"), [("In", InputState), ("Out", ResultState)])
def test_the_page_on_graphs_names_every_key(word: str, schema: type) -> None:
    """Proves: GRAPH-1."""
    text = (ROOT / "docs" / "subgraph.md").read_text(encoding="utf-8")
    told = next(part for part in text.split("\n\n") if part.startswith(f"{word}: "))
    assert set(get_type_hints(schema)) - set(re.findall(r"`(\w+)`", told)) == set()


def test_numbers_that_pages_give() -> None:
    """Proves: CONF-2, SEARCH-5, SEARCH-6."""
    said = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    for name, weight in COMPONENT_WEIGHTS.items():
        assert f"| `{name}` | {weight:.2f} |" in said["confidence.md"]
    assert IDENTITY_CALIBRATION_ID in said["confidence.md"]
    for number in (TOOL_FACTOR, NON_CONTENT_SHARE, SPEAKER_WEIGHT, SESSION_WEIGHT, COSINE_MIDDLE, NEIGHBOUR_SHARE):
        assert f"{number:g}" in said["search.md"]
    assert f"{COSINE_SLOPE:g} × (cosine − {COSINE_MIDDLE:g})" in said["search.md"]


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(path), f"{page.name}: {target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
