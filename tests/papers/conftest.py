"""What tests of papers look at: the folder that their module names PAPER."""

import json
import tomllib

import pytest

from tests.papers.quick_run import modules_of


@pytest.fixture
def module_of(request, monkeypatch):
    """How to import a module of the paper's folder."""
    with modules_of(request.module.PAPER, monkeypatch) as found:
        yield found


@pytest.fixture
def full(request):
    """The means of the full run, as they are committed."""
    return json.loads((request.module.PAPER / "expected.json").read_text(encoding="utf-8"))["full"]


@pytest.fixture
def config(request):
    """The paper's config.toml."""
    return tomllib.loads((request.module.PAPER / "config.toml").read_text(encoding="utf-8"))
