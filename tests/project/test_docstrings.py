"""Every public function, class and method says what it does, what it takes, what it returns and what it raises.

Public is what the package and its subpackages list in ``__all__``. That the examples run is checked elsewhere: pytest
collects them as tests of ``src``.
"""

from __future__ import annotations

import ast
import enum
import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import heathaze as hz
from heathaze.errors import HeathazeError, InvalidInput

SOURCE = Path(hz.__file__).parent
SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):[ ]*$", re.MULTILINE)
ENTRY = re.compile(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*): +\S", re.MULTILINE)
# A first sentence such as "The mass of each row." says what is returned; a method needs no section that repeats it.
SAYS_WHAT_IS_RETURNED = re.compile(r"(Return|Yield|Whether|The|An?|Public|Names|Standard deviation|Pr|ℓ1|How)\b")


def public() -> dict[str, Any]:
    """What the package and its subpackages export, each object once, by its first public name."""
    packages = ["heathaze", *(f"heathaze.{path.parent.name}" for path in sorted(SOURCE.glob("*/__init__.py")))]
    found: dict[int, tuple[str, Any]] = {}
    for package in packages:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found.setdefault(id(thing), (f"{package}.{name}", thing))
    return dict(found.values())


def methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a class, those of its base classes in the package among them."""
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] == "heathaze":
            for name, value in vars(base).items():
                function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                if not name.startswith("_") and inspect.isfunction(function):
                    yield f"{base.__name__}.{name}", function


def sections(text: str) -> dict[str, str]:
    """The parts of a docstring by their headings. The part before them is called "", and ends at an example."""
    parts = SECTION.split(text)
    return {"": parts[0].partition(">>>")[0].strip(), **dict(zip(parts[1::2], parts[2::2], strict=True))}


def described(text: str) -> set[str]:
    """Names of the parameters that a docstring describes."""
    parts = sections(text)
    entries = ENTRY.findall(parts.get("Args", "") + parts.get("Attributes", ""))
    return {name.strip(" *") for entry in entries for name in entry.split(",")}


def parameters(thing: Callable[..., Any]) -> set[str]:
    """Names of the parameters that a caller gives."""
    return {name for name in inspect.signature(thing).parameters if not name.startswith("_")} - {"self", "cls"}


def raised(thing: Callable[..., Any]) -> set[type[HeathazeError]]:
    """Errors of the package that a function's own body raises."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            error = inspect.unwrap(thing).__globals__.get(node.exc.func.id)
            if inspect.isclass(error) and issubclass(error, HeathazeError):
                found.add(error)
    return found


def unnamed(errors: set[type[HeathazeError]], text: str) -> list[str]:
    """Errors that a docstring names neither themselves nor by a more general one."""
    named = set(re.findall(r"^    ([\w, .]+): ", sections(text).get("Raises", ""), re.MULTILINE))
    names = {name.strip().rpartition(".")[2] for entry in named for name in entry.split(",")}
    return sorted(error.__name__ for error in errors if not names & {base.__name__ for base in error.__mro__})


def missing_in_function(function: Callable[..., Any], text: str, *, example: bool) -> list[str]:
    """What the docstring of a function or method lacks."""
    parts = sections(text)
    lacks = [] if parts[""] else ["what it does"]
    lacks += [f"argument {name}" for name in sorted(parameters(function) - described(text))]
    returns = function.__annotations__.get("return")
    returned = "Returns" in parts or "Yields" in parts
    if returns not in (None, "None") and not returned and (example or not SAYS_WHAT_IS_RETURNED.match(parts[""])):
        lacks.append("what it returns")
    lacks += [f"that it raises {name}" for name in unnamed(raised(function), text)]
    return lacks + (["an example"] if example and ">>>" not in text else [])


def missing_in_class(kind: type, text: str) -> list[str]:
    """What the docstring of a class lacks; those of its constructor count with it."""
    if issubclass(kind, BaseException | enum.Enum):
        return [] if text else ["what it is"]
    makers = [vars(kind)[name] for name in ("__init__", "__post_init__") if name in vars(kind)]
    text = "\n\n".join([text, *(inspect.cleandoc(maker.__doc__ or "") for maker in makers)])
    lacks = [] if sections(text)[""] else ["what it is"]
    lacks += [f"argument {name}" for name in sorted(parameters(kind) - described(text))]
    errors = {error for maker in makers if "heathaze" in inspect.getfile(maker) for error in raised(maker)}
    lacks += [f"that it raises {name}" for name in unnamed(errors, text)]
    return lacks + ([] if ">>>" in text else ["an example"])


@functools.cache
def missing() -> dict[str, list[str]]:
    """What public docstrings lack, by the name of the function, class or method."""
    found = {}
    for name, thing in public().items():
        text = inspect.cleandoc(thing.__doc__ or "")
        if inspect.isclass(thing):
            found[name] = missing_in_class(thing, text)
            for method, function in methods(thing):
                found[f"{thing.__module__.rpartition('.')[0]}: {method}"] = missing_in_function(
                    function, inspect.getdoc(getattr(thing, function.__name__)) or "", example=False
                )
        else:
            found[name] = missing_in_function(thing, text, example=True)
    return found


def test_public_docstrings_are_complete() -> None:
    assert len(missing()) > 400
    assert {name: lacks for name, lacks in missing().items() if lacks} == {}


def test_the_rules_find_what_is_missing() -> None:
    def half(number: int, other: int = 0) -> int:
        """Halve a number.

        Args:
            number: The number.
        """
        if number % 2:
            raise InvalidInput("The number is odd.")
        return number // 2 + other

    found = ["argument other", "what it returns", "that it raises InvalidInput", "an example"]
    assert missing_in_function(half, inspect.getdoc(half) or "", example=True) == found
    named = "\n".join([*(inspect.getdoc(half) or "").splitlines(), "    other: Added to the half."])
    named += "\n\nReturns:\n    The half.\n\nRaises:\n    HeathazeError: The number is odd.\n\n>>> 1\n1"
    assert missing_in_function(half, named, example=True) == []

    class Bare:
        """"""

        def __init__(self, size: int) -> None:
            self.size = size

    assert missing_in_class(Bare, inspect.getdoc(Bare) or "") == ["what it is", "argument size", "an example"]
