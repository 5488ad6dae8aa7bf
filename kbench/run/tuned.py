"""Tuned files: the parameters that `kbench tune` found, and how they were found.

`configs/tuned/<method>-<dataset>.yaml` is a config of group `tuned`, laid over the method's own:
its keys are parameters of the method, `meta.tuned` tells of the search. Hydra applies the file by
its name, or the one that `tuned=NAME` names; values on the command line win over it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbench.config import nearest, options, read_yaml, require_option
from kbench.errors import ConfigError
from kbench.run import registry

NONE = "tuned=none"


@dataclass(frozen=True)
class Tuned:
    """A tuned file.

    path : as it is found from the working directory. sha256 : of its bytes. params : of the method.
    search : how they were found; empty in a file that was written by hand.
    """

    path: Path
    sha256: str
    params: Mapping[str, Any]
    search: Mapping[str, Any]

    def check(self, method: str, known: Iterable[str]) -> None:
        """ConfigError for the first parameter that is not among the `known` keys of the method."""
        known = [name for name in known if name not in registry.RESERVED]
        for name in self.params:
            if name not in known:
                raise ConfigError(
                    f"{self.path}: method {method} has no parameter {name!r}"
                    f"{nearest(name, known)}; tune it again, or say {NONE}"
                )

    def notes(
        self, used: Iterable[str], estimator: str, data_sha256: str, variant: str | None
    ) -> list[str]:
        """Lines for the user: what the file sets, and what has changed since it was written.

        Parameters
        ----------
        used : its parameters that neither the command line nor a grid decides.
        estimator : module:Class of the method.
        data_sha256, variant : of the data set as it is used.
        """
        search = self.search
        words = " ".join(f"{name}={self.params[name]}" for name in used)
        lines = [f"{self.path}: {words}{_how(search)}"]
        source_sha256 = registry.source_sha256(estimator)
        if search.get("source_sha256", source_sha256) != source_sha256:
            lines.append(
                f"warning: {self.path}: the method's source has changed since it was tuned"
            )
        if search.get("data_sha256", data_sha256) != data_sha256:
            lines.append(
                f"warning: {self.path}: tuned on data of checksum "
                f"{str(search['data_sha256'])[:12]}, here it is {data_sha256[:12]}"
            )
        if search.get("variant", variant) != variant:
            was, here = (form or "the plain form" for form in (search["variant"], variant))
            lines.append(f"warning: {self.path}: tuned on {was} of the data set, used on {here}")
        return lines


def _how(search: Mapping[str, Any]) -> str:
    if search.get("mean") is None:
        return ""
    spread = "" if search.get("sd") is None else f" ± {search['sd']:.2g}"
    best = "" if search.get("complete", True) else ", the best so far of an unfinished search"
    return f" (validation {search.get('metric')} {search['mean']:.4g}{spread}{best})"


def find_tuned(method: str, dataset: str, chosen: Sequence[str]) -> Tuned | None:
    """The tuned file that a composition with these names and overrides applies.

    Raises
    ------
    ConfigError
        The overrides name a tuned file that does not exist, or the file is no mapping.
    """
    named = [text for text in chosen if text.lstrip("+~").partition("=")[0] == "tuned"]
    if not named:
        path = options("tuned").get(f"{method}-{dataset}")
    elif named[-1].startswith("~") or named[-1] == NONE:
        return None
    else:
        path = require_option("tuned", named[-1].partition("=")[2])
    if path is None:
        return None
    held = read_yaml(path)
    meta = held.get("meta") or {}
    search = meta.get("tuned") if isinstance(meta, Mapping) else None
    if not isinstance(search or {}, Mapping):
        raise ConfigError(f"{path}: meta.tuned is {search!r}, should be a mapping")
    for name in ("mean", "sd"):
        value = (search or {}).get(name)
        if value is not None and not isinstance(value, (int, float)):
            raise ConfigError(f"{path}: meta.tuned.{name} is {value!r}, should be a number")
    relative = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    params = {k: v for k, v in held.items() if k not in registry.RESERVED}
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return Tuned(relative, sha256, params, search or {})


def write_tuned(
    method: str, dataset: str, params: Mapping[str, Any], search: Mapping[str, Any], command: str
) -> Path:
    """Write `configs/tuned/<method>-<dataset>.yaml` in the working directory, atomically."""
    import yaml

    from kbench.files import atomic_file

    path = Path("configs", "tuned", f"{method}-{dataset}.yaml")
    held = json.loads(json.dumps({**params, "meta": {"tuned": search}}))  # plain types only
    text = (
        "# @package method\n"
        f"# Written by `{' '.join(command.split())}`.\n"
        f"# `kbench method={method} dataset={dataset}` uses it; the command line wins over it, "
        f"{NONE} leaves it out.\n"
    )
    text += yaml.safe_dump(held, sort_keys=False, allow_unicode=True, width=100)
    with atomic_file(path) as file:
        file.write(text.encode())
    return path
