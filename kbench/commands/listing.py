"""kbench list [methods|datasets|experiments|grids|limits|parallel] [--json]: names of each kind.

A data set is "present" if its raw files are in datasets/ of the working directory, in a folder of
$KBENCH_DATA, or inside an installed package; "present (half)" means that only the files of the
variant `half` are there.
"""

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbench.commands.arguments import one_of, parse_words
from kbench.config import describing, options, read_yaml
from kbench.streams import terminal_width

# Kind of names that can be listed -> group of configs.
KINDS = {
    "methods": "method",
    "datasets": "dataset",
    "experiments": "experiment",
    "grids": "grid",
    "limits": "limits",
    "parallel": "parallel",
}
KEYS = ("datasets_dir",)
FLAGS = ("--json",)
WORDS = (*KINDS, *FLAGS)
_ROLES = (
    "mission: a method of the papers, or of kbench; baseline: a method for comparison; diagnostic: "
    "a measurement, which rankings leave out; plugin: a method of another package"
)
# Minimum number of characters for a description beside the other columns. Set by hand.
_MIN_WIDTH = 30


def main(argv: Sequence[str]) -> int:
    """Print one line per name; exit code 0."""
    words, values = parse_words(argv, KEYS, flags=FLAGS)
    named = [one_of("the kind of names", word, KINDS) for word in words if word not in FLAGS]
    datasets_dir = values.get("datasets_dir", "datasets")
    listed = {k: _entries(k, datasets_dir) for k in named or ("methods", "datasets", "experiments")}
    if "--json" in words:
        print(
            json.dumps(
                {k: [_record(k, e) for e in entries] for k, entries in listed.items()}, indent=1
            )
        )
        return 0
    width = terminal_width(100)
    for kind, entries in listed.items():
        print(f"{kind} ({len(entries)})")
        widths = [max((len(entry[i]) for entry in entries), default=0) for i in range(3)]
        for entry in entries:
            line = "  ".join(cell.ljust(widths[i]) for i, cell in enumerate(entry[:3]))
            print("\n".join(_wrapped(f"  {line}", entry[3], width)))
        if kind == "methods":
            print(textwrap.fill(_ROLES, width))
        print()
    return 0


def _wrapped(columns: str, about: str, width: int) -> list[str]:
    """Lines of an entry, with the description beside its columns, or below if space is scarce."""
    indent = len(columns) + 2
    if width - indent >= _MIN_WIDTH:
        first, *others = textwrap.wrap(about, width - indent) or [""]
        return [f"{columns}  {first}".rstrip(), *(" " * indent + line for line in others)]
    lines = textwrap.wrap(about, max(_MIN_WIDTH, width - 6))
    return [columns.rstrip(), *(f"      {line}" for line in lines)]


def _record(kind: str, entry: tuple[str, str, str, str]) -> dict[str, Any]:
    """An entry as a record, with the path of the YAML file."""
    name, tasks, state, about = entry
    record: dict[str, Any] = {"name": name}
    if kind == "methods":
        record |= {"tasks": tasks.split(", "), "role": state}
    elif kind == "datasets":
        record |= {"task": tasks, "state": state}
    return record | {"about": about, "config": str(options(KINDS[kind])[name])}


def _entries(kind: str, datasets_dir: str) -> list[tuple[str, str, str, str]]:
    """(name, tasks, state or role, description), sorted by name; experiments cause_* are last."""
    entries = []
    for name, path in options(KINDS[kind]).items():
        with describing(path):
            if kind == "methods":
                entries.append((name, *_method(read_yaml(path))))
            elif kind == "datasets":
                entries.append((name, *_dataset(read_yaml(path), datasets_dir)))
            elif kind == "experiments":
                recipe = read_yaml(path).get("plan") or {}
                entries.append((name, "", "", str(recipe.get("about", ""))))
            else:
                entries.append((name, "", "", _first_comment(path)))
    return sorted(
        entries, key=lambda entry: kind == "experiments" and entry[0].startswith("cause_")
    )


def _method(config: dict[str, Any]) -> tuple[str, str, str]:
    meta = config.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    tasks = ", ".join(meta.get("tasks") or ["any"])
    return tasks, str(meta.get("role", "")), str(meta.get("about", ""))


def _dataset(config: dict[str, Any], datasets_dir: str) -> tuple[str, str, str]:
    from kbench.data import Folders, by_files, locate

    if "kind" not in (config.get("source") or {}):
        return str(config.get("task") or "any"), "no source", str(config.get("about", ""))
    folders = Folders.from_environment(datasets_dir)
    present = [
        names.partition(",")[0]
        for names, form in by_files(config)
        if all(file.path is not None for file in locate(form, folders))
    ]
    state = "absent"
    if present:  # an empty name stands for the data set without a variant
        state = "present" if not present[0] else f"present ({'; '.join(present)})"
    if config["source"]["kind"] == "file":
        state = "yours"
    facts = config.get("facts") or {}
    rows, columns = facts.get("n_train") or facts.get("n"), facts.get("n_features")
    size = f"{rows} x {columns}: " if rows and columns else ""
    return str(config.get("task") or "any"), state, f"{size}{config.get('about', '')}"


def _first_comment(path: Path) -> str:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("#").strip() if first.startswith("#") else ""
