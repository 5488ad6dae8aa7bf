"""A run as a command line that reproduces it, and values in the two notations that this takes."""

import json
import math
import shlex
from collections.abc import Mapping
from typing import Any

from kbench.config import flatten


def canonical(value: Any) -> str:
    """JSON with sorted keys in which 1 and 1.0 are the same number."""

    def plain(item: Any) -> Any:
        if isinstance(item, Mapping):
            return {str(k): plain(v) for k, v in item.items()}
        if isinstance(item, (list, tuple)):
            return [plain(v) for v in item]
        if isinstance(item, float) and math.isfinite(item) and item == int(item):
            return int(item)
        return item

    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"))


class Command:
    """The command line that reproduces a run: names, and all that differs from their defaults.

    Tuned parameters stand in it; `untuned` says that a tuned file must not add to them.
    """

    def __init__(
        self, method: str, config: dict[str, Any], bare: dict[str, Any], *, untuned: bool
    ) -> None:
        words = [f"method={method}", f"dataset={config['dataset']['name']}"]
        words += ["tuned=none"] if untuned else []
        for group in ("dataset", "limits"):
            plain = flatten(bare[group])
            for key, value in flatten(config[group]).items():
                if key not in plain or plain[key] != value:
                    sign = "" if key in plain else "++"
                    words.append(f"{sign}{group}.{key}={hydra_value(value)}")
        self._words = words
        self._method = bare["method"]

    def text(self, params: Mapping[str, Any], seed: int) -> str:
        words = [*self._words, *([f"seed={seed}"] if seed else [])]
        for key, value in params.items():
            if key not in self._method or self._method[key] != value:
                sign = "" if key in self._method else "+"
                words.append(f"{sign}method.{key}={hydra_value(value)}")
        return shlex.join(["kbench", *words])


def hydra_value(value: Any) -> str:
    """A value in Hydra's override grammar; strings are quoted where the grammar needs it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{k}:{hydra_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(hydra_value(v) for v in value) + "]"
    if isinstance(value, str):
        if value and all(c.isalnum() or c in "_-./" for c in value) and not _reads_as_other(value):
            return value
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return repr(value)


def _reads_as_other(text: str) -> bool:
    if text.lower() in ("null", "true", "false", "nan", "inf", "-inf"):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True
