"""Classes of Java that are compiled when they are needed: Janino does it, which every Spark has, since it compiles each of its
queries."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from pyspark.sql import SparkSession

COMPILING = threading.Lock()
"""Held while classes are compiled, sent or made: two that come at once would each compile them, and Py4J, which knows classes
by their names, would mix them up."""

_SENT: set[tuple[str, str]] = set()


def compiler(jvm: Any, source: Path, above: Any = None) -> Any:
    """Janino's compiler with the classes of a source, which see those of the class loader ``above``: Spark's, unless given."""
    made = jvm.org.codehaus.janino.SimpleCompiler()
    made.setParentClassLoader(
        jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader() if above is None else above
    )
    made.cook(source.read_text(encoding="utf-8"))
    return made


def send(spark: SparkSession, name: str, classes: Mapping[str, bytes]) -> None:
    """Have the executors of the session load classes, in a jar of this name; once for each application."""
    context = spark.sparkContext
    if (context.applicationId, name) in _SENT:
        return
    folder = Path(tempfile.mkdtemp(prefix="commitlog-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with ZipFile(folder / f"{name}.jar", "w") as jar:
        for each, code in classes.items():
            jar.writestr(each.replace(".", "/") + ".class", code)
    context._jsc.addJar(str(folder / f"{name}.jar"))
    _SENT.add((context.applicationId, name))
