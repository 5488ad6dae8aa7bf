"""Write a run as a command line that reproduces it, and values as canonical JSON."""

import json
import math
import shlex
from collections.abc import Mapping
from typing import Any

from kbench.config import flatten, hydra_value


def canonical(value: Any) -> str:
    """JSON with sorted keys in which 1 and 1.0 are the same number."""

    def plain(item: Any) -> Any:
        # A plan of 10,000 runs converts millions of items, most of them of these types.
        if item is None or type(item) in (str, int, bool):
            return item
        if isinstance(item, (dict, Mapping)):
            return {str(k): plain(v) for k, v in item.items()}
        if isinstance(item, (list, tuple)):
            return [plain(v) for v in item]
        if isinstance(item, float) and math.isfinite(item) and item == int(item):
            return int(item)
        return item

    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"))


# Limits that are part of a run's key.
KEY_LIMITS = ("wall_s", "cpu_s", "memory_mb")


class Command:
    """The command line that reproduces a run, also after defaults of the method have changed.

    The command contains every parameter of the run, with the values of its preset, every limit that
    is part of the key, and all other keys that differ from the files. It names no tuned file,
    because such a file may change.

    config, default_config : The composed config with and without the command's values.
    """

    def __init__(self, config: dict[str, Any], default_config: dict[str, Any]) -> None:
        words = [f"method={config['method']['name']}", f"dataset={config['dataset']['name']}"]
        words.append("tuned=none")
        for group, required in (("dataset", ()), ("limits", KEY_LIMITS)):
            defaults = flatten(default_config[group])
            for key, value in flatten(config[group]).items():
                if key in required or key not in defaults or defaults[key] != value:
                    sign = "" if key in defaults else "++"
                    words.append(f"{sign}{group}.{key}={hydra_value(value)}")
        self._head = shlex.join(["kbench", *words])
        self._file_params = set(default_config["method"])

    def tail(self, params: Mapping[str, Any]) -> str:
        """The end of the command of runs with these parameters, the values of a preset included."""
        return shlex.join(
            f"{'' if key in self._file_params else '++'}method.{key}={hydra_value(value)}"
            for key, value in params.items()
        )

    def text(self, tail: str, seed: int) -> str:
        """The command of the run with this seed and the parameters of `tail`."""
        return f"{self._head} seed={seed} {tail}".rstrip()
