"""What `make docs` adds to mkdocs: it collects the pages of the repository, writes navigation and API reference.

The site has the same folders as the repository. A page keeps its path, so a relative link is right in both, and mkdocs
in strict mode checks the links of every page, those beside the source code too.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "heathaze"
MODELS = {
    "central": "Central: a curator",
    "distributed": "Distributed: secure sums",
    "secagg": "The secure sum itself",
    "shuffle": "Shuffle: a shuffler mixes messages",
    "local": "Local: only the own device",
    "trajectories": "Trajectories: made-up journeys",
    "sensors": "Sensors",
    "marketplace": "Marketplace",
}
PUBLIC = (
    "central", "shuffle", "local", "distributed", "trajectories", "sensors", "marketplace", "metrics", "datasets",
    "secagg", "testing",
)  # fmt: skip
"""Modules with a page of the API reference, beside ``heathaze`` itself."""

GUIDES = (
    "first-map", "your-files", "better-maps", "trust-a-shuffler", "trust-a-sum", "trust-nobody", "journeys",
    "heat-through-walls", "buy-data",
)  # fmt: skip
SHIM = "https://unpkg.com/iframe-worker/shim"
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write the navigation."""
    guides = [f"docs/guide/{name}.md" for name in GUIDES]
    more = sorted(path for path in _pages("docs/guide") if path not in guides)
    papers = [path for path in _pages("papers") if path != "papers/README.md"]
    decisions = [path for path in _pages("docs/decisions") if not path.endswith("README.md")]
    config.nav = [
        {"Start": "README.md"},
        {"Guides": [*guides, *more, "PROMISE.md", "docs/other-libraries.md", "docs/glossary.md"]},
        {
            "Mechanisms": [
                *({title: _pages(f"src/heathaze/{model}")} for model, title in MODELS.items()),
                *(path for path in _pages("src") if Path(path).parts[2] not in MODELS),
            ]
        },
        {"API": ["reference/heathaze.md", *(f"reference/{name}.md" for name in PUBLIC)]},
        {"Papers": ["papers/README.md", *papers, "docs/errata.md"]},
        {"Benchmarks": ["benchmarks/README.md"]},
        {
            "Project": [
                "ARCHITECTURE.md",
                "CONTRIBUTING.md",
                "docs/releasing.md",
                "SECURITY.md",
                "CHANGELOG.md",
                {"Decisions": ["docs/decisions/README.md", *decisions]},
            ]
        },
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every page of the navigation, and every file of the repository that a page links to."""
    for path in _paths_in(config.nav):
        if path.startswith("reference/"):
            files.append(File.generated(config, path, content=_reference(path)))
            continue
        _add(files, config, path)
        for target in LINK.findall((ROOT / path).read_text(encoding="utf-8")):
            found = (ROOT / path).parent / unquote(target)
            if "://" not in target and found.is_file() and found.suffix != ".md":
                _add(files, config, found.resolve().relative_to(ROOT).as_posix())
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put an empty line before a list that follows a line of text, which Python's Markdown needs and others do not."""
    lines: list[str] = []
    fenced = False
    for line in markdown.split("\n"):
        before = lines[-1] if lines else ""
        fenced ^= line.lstrip().startswith("```")
        if not fenced and _is_item(line) and before.strip() and not _is_item(before) and not before.startswith(" "):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Take the helper of the offline search from the site itself, not from another server."""
    return output.replace(SHIM, get_relative_url("worker.js", page.url))


def on_post_template(output_content: str, **_: Any) -> str:
    """The same for the page that a server shows for a wrong address."""
    return output_content.replace(SHIM, "/worker.js")


def _is_item(line: str) -> bool:
    return re.match(r"([-*]|\d+\.) ", line) is not None


def _add(files: Files, config: MkDocsConfig, path: str) -> None:
    if path not in files.src_uris:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))


def _pages(folder: str) -> list[str]:
    """Paths of all pages below a folder of the repository."""
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.md"))


def _paths_in(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [path for part in (nav.values() if isinstance(nav, dict) else nav) for path in _paths_in(part)]


def _reference(path: str) -> str:
    """The page of one public module: its docstring, then every name of ``__all__`` in the order of the file."""
    name = Path(path).stem
    module = "heathaze" if name == "heathaze" else f"heathaze.{name}"
    file = PACKAGE / "__init__.py" if name == "heathaze" else PACKAGE / name / "__init__.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    (names,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
    )
    names = [known for known in names if known not in PUBLIC and known != "__version__"]
    options = "{members: [], show_root_heading: false, show_root_toc_entry: false}"
    head = f"# `{module}`\n\n::: {module}\n    options: {options}\n"
    return head + "".join(f"\n::: {module}.{known}\n" for known in names)
