"""Tuned files, which hold the parameters that `kbench tune` found and describe the search.

`configs/tuned/<method>-<dataset>.yaml` is a config of group `tuned`, laid over the method's own:
its keys are parameters of the method, and `meta.tuned` describes the search. Hydra applies the file
with this name, or the file that `tuned=NAME` names; values on the command line override it. An
experiment whose plan says `tuned: SET` applies `<method>-<dataset>-<SET>.yaml` if it exists.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbench.config import hydra_value, options, read_yaml, require_option, unquoted
from kbench.errors import ConfigError
from kbench.mistyped import key_of, nearest
from kbench.run.planning import registry
from kbench.run.planning.source import source_sha256

NO_TUNED_FILE = "tuned=none"


@dataclass(frozen=True)
class TunedFile:
    """A tuned file."""

    path: Path  # relative to the working directory if the file is in it
    sha256: str  # of the file's bytes
    params: Mapping[str, Any]  # parameters of the method
    search: Mapping[str, Any]  # describes the search; empty if the file was written by hand

    def check(self, method: str, method_keys: Iterable[str]) -> None:
        """Raise ConfigError for the first parameter that is not in `method_keys`."""
        params = [name for name in method_keys if name not in registry.RESERVED]
        for name in self.params:
            if name not in params:
                raise ConfigError(
                    f"{self.path}: method {method} has no parameter {name!r}"
                    f"{nearest(name, params)}; tune it again, or write {NO_TUNED_FILE}"
                )

    def notes(
        self, used: Iterable[str], estimator: str, data_sha256: str, variant: str | None
    ) -> list[str]:
        """Lines for the user: the parameters that the file sets, and changes since it was written.

        used : Parameters of the file that neither the command line nor a grid sets.
        """
        search = self.search
        words = " ".join(f"{name}={self.params[name]}" for name in used)
        lines = [f"{self.path}: {words}{_score_text(search)}"]
        source = source_sha256(estimator)
        if search.get("source_sha256", source) != source:
            lines.append(
                f"warning: {self.path}: the method's source has changed since it was tuned"
            )
        if search.get("data_sha256", data_sha256) != data_sha256:
            lines.append(
                f"warning: {self.path}: tuned on data of checksum "
                f"{str(search['data_sha256'])[:12]}, here it is {data_sha256[:12]}; tune again, or "
                f"leave the file out with {NO_TUNED_FILE}"
            )
        if search.get("variant", variant) != variant:
            before, now = (form or "the plain form" for form in (search["variant"], variant))
            lines.append(f"warning: {self.path}: tuned on {before} of the data set, used on {now}")
        return lines


def _score_text(search: Mapping[str, Any]) -> str:
    if search.get("mean") is None:
        return ""
    spread = "" if search.get("sd") is None else f" ± {search['sd']:.2g}"
    note = "" if search.get("complete", True) else ", the best so far of an unfinished search"
    return f" (validation {search.get('metric')} {search['mean']:.4g}{spread}{note})"


def tuned_name(method: str, dataset: str, tuned_set: str | None) -> str:
    """Name of the tuned file of a method and a data set, in `tuned_set` if it is not None."""
    return "-".join([method, dataset, *([tuned_set] if tuned_set else [])])


def tuned_set_of(recipe: Mapping[str, Any]) -> str | None:
    """The set of tuned files that an experiment's plan names."""
    tuned_set = recipe.get("tuned")
    if tuned_set is not None and not (
        isinstance(tuned_set, str) and re.fullmatch(r"\w+", tuned_set)
    ):
        raise ConfigError(f"plan.tuned is {tuned_set!r}, should be a name of letters, digits and _")
    return tuned_set


def override_of_set(
    tuned_set: str | None, method: str, dataset: str, overrides: Sequence[str]
) -> list[str]:
    """The override that applies the pair's file in the set of tuned files `tuned_set`.

    Empty if the set has no such file, or if the overrides name a tuned file.

    Raises ConfigError: the set has no files.
    """
    if tuned_set is None or any(key_of(text) == "tuned" for text in overrides):
        return []
    files = options("tuned")
    name = tuned_name(method, dataset, tuned_set)
    if name in files:
        return [f"tuned={hydra_value(name)}"]
    if not any(other.endswith(f"-{tuned_set}") for other in files):
        raise ConfigError(
            f"plan.tuned is {tuned_set!r}, and no file of configs/tuned is called METHOD-DATASET-"
            f"{tuned_set}; `kbench tune experiment=...` writes them, {NO_TUNED_FILE} uses none"
        )
    return []


def override_of_own_file(method: str, path: Any, overrides: Sequence[str]) -> list[str]:
    """The override that applies the tuned file of a user's own file; `tuned=none` if there is none.

    Empty if the overrides name a tuned file. path : `path` of the data set.
    """
    from kbench.data.configs.own_file import own_name

    files = options("tuned")
    if not path or not files or any(key_of(text) == "tuned" for text in overrides):
        return []
    name = tuned_name(method, own_name(str(path)), None)
    return [f"tuned={hydra_value(name)}" if name in files else NO_TUNED_FILE]


def find_tuned(method: str, dataset: str, overrides: Sequence[str]) -> TunedFile | None:
    """The tuned file that a composition with these names and overrides applies.

    Raises ConfigError: the overrides name a tuned file that does not exist, or the file is not a
    mapping.
    """
    words = [text for text in overrides if key_of(text) == "tuned"]
    if not words:
        path = options("tuned").get(f"{method}-{dataset}")
    elif words[-1].startswith("~") or words[-1] == NO_TUNED_FILE:
        return None
    else:
        path = require_option("tuned", unquoted(words[-1].partition("=")[2]))
    if path is None:
        return None
    content = read_yaml(path)
    meta = content.get("meta") or {}
    search = meta.get("tuned") if isinstance(meta, Mapping) else None
    if not isinstance(search or {}, Mapping):
        raise ConfigError(f"{path}: meta.tuned is {search!r}, should be a mapping")
    for name in ("mean", "sd"):
        value = (search or {}).get(name)
        if value is not None and not isinstance(value, (int, float)):
            raise ConfigError(f"{path}: meta.tuned.{name} is {value!r}, should be a number")
    shown_path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    params = {k: v for k, v in content.items() if k not in registry.RESERVED}
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return TunedFile(shown_path, sha256, params, search or {})


def write_tuned(
    method: str,
    dataset: str,
    params: Mapping[str, Any],
    search: Mapping[str, Any],
    command: str,
    tuned_set: str | None = None,
) -> Path:
    """Write `configs/tuned/<method>-<dataset>[-<tuned_set>].yaml` in this directory, atomically."""
    import yaml

    from kbench.files import atomic_file

    path = Path("configs", "tuned", f"{tuned_name(method, dataset, tuned_set)}.yaml")
    content = json.loads(json.dumps({**params, "meta": {"tuned": search}}))  # for plain types
    text = (
        "# @package method\n"
        f"# Written by `{' '.join(command.split())}`,\n"
        f"# {usage_text(method, dataset, tuned_set)};\n"
        f"# the command line wins over it, {NO_TUNED_FILE} leaves it out.\n"
    )
    text += yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
    with atomic_file(path) as file:
        file.write(text.encode())
    return path


def usage_text(method: str, dataset: str, tuned_set: str | None) -> str:
    """The commands that use a tuned file, in words."""
    if tuned_set is None:
        return f"used by `kbench method={method}` on the data set {dataset}"
    return f"used by experiments whose plan says `tuned: {tuned_set}`"
