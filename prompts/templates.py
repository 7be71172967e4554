"""Loads and fills the Markdown templates of this folder.

Each file begins with a header between two lines of `---`: its `version`, which is raised when its words change, and
its `variables`, which are checked against the braces in the text. The prompts for a language model have two parts,
`# system` (fixed, so that a server can cache it) and `# user` (the data of a call).
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from recall_loop.state.types import Strategy
from recall_loop.text.packaged_data import packaged_text

_FENCE = "---\n"
_SYSTEM = "# system\n"


@dataclass(frozen=True)
class PromptTemplate:
    """One file: its version, the variables that its header declares, and its text."""

    name: str
    version: str
    variables: frozenset[str]
    text: str


@dataclass(frozen=True)
class RenderedPrompt:
    """A rendered prompt: fixed instructions, and the data of this call."""

    name: str
    version: str
    system: str
    user: str


@lru_cache
def load_template(name: str) -> PromptTemplate:
    """Return the template `name`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: its header is incomplete, or declares other variables than the text has.
    """
    whole = packaged_text(__package__, f"{name}.md")
    _, _, rest = whole.partition(_FENCE)
    header, fence, text = rest.partition(_FENCE)
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in header.splitlines())}
    if not whole.startswith(_FENCE) or not fence or set(fields) != {"version", "variables"}:
        raise ValueError(f"template {name}: begins with a header of version and variables between lines of ---")
    declared = frozenset(part.strip() for part in fields["variables"].split(",") if part.strip())
    used = frozenset(field for _, field, _, _ in string.Formatter().parse(text) if field)
    if declared != used:
        raise ValueError(f"template {name}: declares {sorted(declared)}, has {sorted(used)}")
    return PromptTemplate(name, fields["version"], declared, text)


def _template_for(name: str, values: Mapping[str, str]) -> PromptTemplate:
    template = load_template(name)
    if set(values) != template.variables:
        raise ValueError(f"template {name}: got {sorted(values)}, takes {sorted(template.variables)}")
    return template


def render_template(name: str, **values: str) -> str:
    """Fill the template `name`; braces in the values stay as they are.

    Raises:
        ValueError: a variable is missing or unknown.
    """
    return _template_for(name, values).text.format_map(values)


def render_prompt(name: str, **values: str) -> RenderedPrompt:
    """Fill the prompt `name`, which has a system and a user part.

    Raises:
        ValueError: a variable is missing or unknown, or the file lacks one of the two parts.
    """
    template = _template_for(name, values)
    system, marker, user = template.text.removeprefix(_SYSTEM).partition("\n# user\n")
    if not marker or not template.text.startswith(_SYSTEM):
        raise ValueError(f"template {name}: has no parts `# system` and `# user`")
    return RenderedPrompt(name, template.version, system.format_map(values), user.strip().format_map(values))


@lru_cache
def strategy_instructions() -> dict[Strategy, str]:
    """Return the instruction of every strategy (LOOP-7), for a language model and for people."""
    sections = [part.partition("\n") for part in load_template("strategies").text.split("# ") if part.strip()]
    return {Strategy(head.strip()): body.strip() for head, _, body in sections}
