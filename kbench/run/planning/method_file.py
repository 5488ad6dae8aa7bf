"""The YAML file of a method: kbench's own keys and the parameters of its class."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbench import presets
from kbench.errors import ConfigError
from kbench.mistyped import nearest
from kbench.run.planning import registry
from kbench.run.results.metrics import METRICS

# Keys of `meta`, which docs/adding-a-method.md explains.
_META_KEYS = [
    *("about", "extra", "optional", "paper", "path", "presets", "role", "tasks", "tuned", "tuner"),
    *("version", "warmup"),
]
_ROLES = ("mission", "baseline", "diagnostic", "plugin")


def _wrong_value(method: str, key: str, value: Any, expected: str) -> ConfigError:
    return ConfigError(f"method {method}: {key} is {value!r}, should be {expected}")


@dataclass(frozen=True)
class MethodFile:
    """A method's config, in which kbench's own keys are separate from the class's parameters."""

    name: str
    estimator: Any  # a name, or a mapping from task to name
    meta: Mapping[str, Any]
    params: Mapping[str, Any]
    parts: Mapping[str, str] | None = None  # as in kbench.run.planning.registry

    @classmethod
    def of(cls, config: Mapping[str, Any], name: str) -> "MethodFile":
        """The checked content of the file `name`.yaml."""
        meta = config.get("meta") or {}
        required = {"name": name, "estimator": "..."}
        if absent := [f"`{key}: {required[key]}`" for key in required if config.get(key) is None]:
            raise ConfigError(f"method/{name}.yaml lacks {' and '.join(absent)}")
        if config["name"] != name:
            raise ConfigError(
                f"method/{name}.yaml: name is {config['name']!r}, should be the file's name, {name}"
            )
        if not isinstance(meta, Mapping):
            raise _wrong_value(name, "meta", meta, "a mapping of about, tasks ...")
        for key in meta:
            if key not in _META_KEYS:
                hint = nearest(str(key), _META_KEYS)
                raise ConfigError(f"method {name}: meta has no key {key!r}{hint}")
        tasks = meta.get("tasks") or []
        if not isinstance(tasks, list) or not set(map(str, tasks)) <= set(METRICS):
            raise _wrong_value(name, "meta.tasks", tasks, f"a list of {', '.join(METRICS)}")
        if meta.get("role", _ROLES[0]) not in _ROLES:
            raise _wrong_value(name, "meta.role", meta["role"], f"one of {', '.join(_ROLES)}")
        params = {key: value for key, value in config.items() if key not in registry.RESERVED}
        return cls(name, config["estimator"], meta, params, config.get("parts"))

    def estimator_for(self, task: str) -> str:
        """The name of the class for `task`: an entry point or a dotted path."""
        if not isinstance(self.estimator, Mapping):
            return str(self.estimator)
        if task not in self.estimator:
            raise ConfigError(f"method {self.name}: estimator names no class for {task}")
        return str(self.estimator[task])

    def version(self) -> int:
        """`meta.version`, by default 1, which rises when the same parameters give other results."""
        version = self.meta.get("version", 1)
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise _wrong_value(self.name, "meta.version", version, "a whole number from 1")
        return version

    def path(self) -> tuple[str, ...]:
        """`meta.path`: the parameters along which a fit may start from the previous solution."""
        path = self.meta.get("path")
        if path is None:
            return ()
        if not isinstance(path, list) or not {"warm_start", *path} <= set(self.params):
            expected = "a list of parameters of the method, which needs warm_start as well"
            raise _wrong_value(self.name, "meta.path", path, expected)
        return tuple(path)

    def optional(self) -> list[str]:
        """`meta.optional`: parameters that are left out of a run if they are null.

        Parameters that a method got later are optional, so that older rows keep their keys.
        """
        names = self.meta.get("optional", [])
        if not isinstance(names, list) or not set(names) <= set(self.params):
            expected = "a list of parameters of the method"
            raise _wrong_value(self.name, "meta.optional", names, expected)
        return names

    def effective(self, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters with the values of the preset in place of null (`meta.presets`)."""
        table = self.meta.get("presets")
        if table is None:
            return params
        if table not in presets.TABLES:
            expected = f"one of {', '.join(presets.TABLES)}{nearest(str(table), presets.TABLES)}"
            raise _wrong_value(self.name, "meta.presets", table, expected)
        try:
            return params | presets.resolve(params.get("preset"), presets.TABLES[table], params)
        except ValueError as error:
            raise ConfigError(f"method {self.name}: {error}") from None
