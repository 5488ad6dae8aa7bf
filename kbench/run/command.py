"""A run as a command line that reproduces it, and values in the two notations that this takes."""

import json
import math
import shlex
from collections.abc import Callable, Mapping
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

    Tuned parameters stand in it; `untuned` says that a tuned file must not add to them. `config` is
    what the plan's command composes to, `bare` what the two names alone compose to. Keys of the
    data set, such as its variant, change defaults of the method: `compose` makes a config of
    overrides, and the method's keys are compared with the one of the names and these keys.
    """

    def __init__(
        self,
        config: dict[str, Any],
        bare: dict[str, Any],
        compose: Callable[[list[str]], dict[str, Any]],
        *,
        untuned: bool,
    ) -> None:
        names = [f"method={config['method']['name']}", f"dataset={config['dataset']['name']}"]
        words = [*names, "tuned=none"] if untuned else list(names)
        for group in ("dataset", "limits"):
            plain = flatten(bare[group])
            for key, value in flatten(config[group]).items():
                if key not in plain or plain[key] != value:
                    sign = "" if key in plain else "++"
                    words.append(f"{sign}{group}.{key}={hydra_value(value)}")
        self._words = words
        of_data = [word for word in words[len(names) :] if "dataset." in word.partition("=")[0]]
        if of_data:
            bare = compose([*names, "tuned=none", *of_data])
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
