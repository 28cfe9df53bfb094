"""Run the cells of a notebook and store what they show, without Jupyter.

    python examples/run_notebook.py docs/guide/notebook.ipynb

The notebook of the guide runs in the folder that contains ``demo/`` (``make demo``). A cell shows the value of its last
line: as a picture, as HTML, or as text, whichever the value offers first.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import sys
from pathlib import Path
from typing import Any


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run the cells of a notebook in order, store their output in it, and return the names that they define."""
    names: dict[str, Any] = {}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        tree = ast.parse("".join(cell["source"]), f"cell {number}")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {number}", "exec"), names)
        shown = None if last is None else eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        cell["execution_count"] = number
        output = {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": _data(shown)}
        cell["outputs"] = [] if shown is None else [output]
    return names


def _data(value: Any) -> dict[str, Any]:
    """What a notebook stores for a value, by media type."""
    data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "get_figure"):
        picture = io.BytesIO()
        value.get_figure().savefig(picture, format="png", dpi=80, bbox_inches="tight", metadata={"Software": None})
        data["image/png"] = base64.b64encode(picture.getvalue()).decode("ascii")
    elif hasattr(value, "_repr_html_"):
        text = value._repr_html_()
        if text is not None and "<iframe" not in text:  # a live page is shown only by a notebook that runs
            data["text/html"] = text.splitlines(keepends=True)
    return data


def main() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    path = Path(sys.argv[1])
    notebook = json.loads(path.read_text(encoding="utf-8"))
    run(notebook)
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
