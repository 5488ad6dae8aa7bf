"""Composition of configs: their folders, and calls of Hydra.

Hydra composes data set x method x limits x grid (x tuned x experiment) into one plain dictionary;
its error messages become one line with the nearest valid name. A folder `configs/` in the working
directory is searched first, kbench's own second, and the folders of plug-ins last.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from kbench.errors import ConfigError, one_line, with_type
from kbench.mistyped import check_word, hint_for_unknown, nearest, syntax_error
from kbench.synonyms import synonym


@cache
def shipped_root() -> Path:
    """kbench's own configs: beside pyproject.toml in a source tree, else inside the package.

    An editable install may leave a stale copy inside the package, so the source tree wins.
    """
    package = Path(__file__).resolve().parent
    source_configs = package.parent / "configs"
    if (package.parent / "pyproject.toml").is_file() and source_configs.is_dir():
        return source_configs
    return package / "configs"


@cache
def _plugin_roots() -> tuple[Path, ...]:
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    roots = []
    for point in entry_points(group="kbench.configs"):
        try:
            spec = find_spec(point.value)
        except ImportError:
            spec = None
        if spec is None or not spec.submodule_search_locations:
            raise ConfigError(
                f"entry point {point.name!r} of group kbench.configs names {point.value!r}, which "
                "is not an installed package; it should be the package that holds method/*.yaml"
            )
        roots += [Path(location) for location in spec.submodule_search_locations]
    return tuple(roots)


def roots() -> list[Path]:
    """Folders that are searched for configs, in this order."""
    local_root = Path.cwd() / "configs"
    folders = [local_root] if local_root.is_dir() else []
    return [
        *folders,
        *(r for r in (shipped_root(), *_plugin_roots()) if r.resolve() not in folders),
    ]


def options(group: str) -> dict[str, Path]:
    """Values of `group=...`, with the file of each."""
    files: dict[str, Path] = {}
    for root in roots():
        for path in sorted((root / group).glob("*.yaml")):
            files.setdefault(path.stem, path)
    return dict(sorted(files.items()))


def hiding_message(group: str, name: str) -> str | None:
    """A message if a file in ./configs replaces a file of kbench, otherwise None."""
    first, *others = roots()
    file = Path(group, f"{name}.yaml")
    if not (first / file).is_file() or not any((root / file).is_file() for root in others):
        return None
    return f"configs/{file.as_posix()} is used in place of kbench's own {group} {name}"


def option_named(word: str) -> str | None:
    """`group=word` if a method, a data set or an experiment has this name."""
    groups = ("method", "dataset", "experiment")
    return next((f"{group}={word}" for group in groups if word in options(group)), None)


def require_option(group: str, name: str) -> Path:
    """The file of `group=name`; a ConfigError with the nearest names if there is none."""
    known = options(group)
    if name not in known:
        if group == "dataset" and (Path(name).suffix or "/" in name):
            raise ConfigError(
                f"no dataset is called {name!r}; write dataset.path={name} for a file of yours, "
                f"as in kbench method=svc dataset.path={name}"
            )
        hint = hint_for_unknown(group, name, known)
        raise ConfigError(f"no {group} is called {name!r}{hint}")
    return known[name]


# A number that Hydra reads, but PyYAML takes for a text, such as 1e-3.
_EXPONENTIAL = re.compile(r"[-+]?[0-9]+\.?[0-9]*[eE][-+]?[0-9]+$")


def read_yaml(path: Path) -> dict[str, Any]:
    """The content of one config file alone, without the files that it includes."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("Loader", (base,), {})
    loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENTIAL, list("-+.0123456789"))
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    except yaml.YAMLError as error:
        raise _not_yaml(error, path) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not YAML: {one_line(error)}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    if not isinstance(loaded, dict):
        kind = "is empty" if loaded is None else f"holds {type(loaded).__name__}"
        raise ConfigError(f"{path}: {kind}, should be a mapping of keys, as in `C: 1`")
    return loaded


def _not_yaml(error: Exception, path: Path | None = None) -> ConfigError:
    """Return an error that names file and line and quotes the YAML parser."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return ConfigError(f"{path}: not YAML: {one_line(error)}" if path else one_line(error))
    problem = getattr(error, "problem", "")
    hint = "; indent with blanks, not with tabs" if "\\t" in problem else ""
    return ConfigError(f"{path or mark.name}:{mark.line + 1}: not YAML: {problem}{hint}")


@contextmanager
def describing(path: Path) -> Iterator[None]:
    """Turn the errors that a malformed file causes into one ConfigError that names the file."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError) as error:
        reason = with_type(error)
        raise ConfigError(f"{path}: a key or value has the wrong form ({reason})") from None


def _resolve_use(path: str, default: Any = None, *, _root_: Any) -> Any:
    """Resolver `${use:svm.C,1.0}`: the data set's value for that use, or the default 1.0.

    With `use=none` the default is used for every data set.
    """
    from omegaconf import OmegaConf

    if OmegaConf.select(_root_, "use") == "none":
        return default
    variant = OmegaConf.select(_root_, "dataset.variant")
    if variant is not None:
        value = OmegaConf.select(_root_, f"dataset.variants.{variant}.use.{path}")
        if value is not None:
            return value
    value = OmegaConf.select(_root_, f"dataset.use.{path}")
    return default if value is None else value


# Groups whose files people exchange. A file of such a group may only set keys of its own group.
_CONFINED_GROUPS = ("method", "dataset", "grid", "limits")


@cache
def _check_confined(group: str, path: Path) -> None:
    """Refuse a file that reads or sets anything outside its group.

    Raises ConfigError: the file has a package header, includes files of other groups, uses a
    resolver other than `use`, which could read the environment, or names a file on the user's
    machine.
    """
    subject = f"{path}: a file of {group}/"
    for line in path.read_text(encoding="utf-8").splitlines():
        if re.match(r"\s*#\s*@package", line):
            raise ConfigError(f"{subject} has the header {line.strip()!r}, should have none")
    content = read_yaml(path)
    for entry in content.get("defaults") or ():
        if not isinstance(entry, str) or not re.fullmatch(r"[\w-]+", entry):
            raise ConfigError(f"{subject} includes {entry!r}, should be a name of the same group")
        included = path.with_name(f"{entry}.yaml")
        if entry != "_self_" and included.is_file():
            _check_confined(group, included)
    if group == "dataset":
        variants = content.get("variants")
        mappings = [content, *(variants.values() if isinstance(variants, Mapping) else ())]
        for mapping in mappings:
            for key in ("path", "test_path"):
                if isinstance(mapping, Mapping) and mapping.get(key) is not None:
                    raise ConfigError(
                        f"{subject} sets {key}, which is for the command line: dataset.{key}=FILE; "
                        "use source.files here"
                    )
    for text in _strings(content):
        for match in re.finditer(r"\$\{\s*([^${}:]*)([${}:]?)", text):
            if match[2] == "$" or (match[2] == ":" and match[1].strip() != "use"):
                raise ConfigError(f"{subject} holds {text!r}; only ${{use:...}} is allowed there")
    # A file that only others include may have no name.
    name = content.get("name")
    if group == "dataset" and name != path.stem and (name or "defaults" in content):
        raise ConfigError(f"{path}: name is {name!r}, should be the file's name, {path.stem}")


def _strings(value: Any) -> Iterator[str]:
    """Every text in a nested structure, the keys of mappings included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)


# Keys that a command may add with `+`, which messages on unknown keys then offer.
_EXTENSIBLE = re.compile(r"(method|parallel\.options)\.")


def interpolates(text: str) -> bool:
    """Whether OmegaConf replaces a ${...} in `text` by the value of another key."""
    return re.search(r"(?<!\\)(?:\\\\)*\$\{", text) is not None


def _unescaped(value: Any) -> Any:
    if isinstance(value, list):
        return [_unescaped(item) for item in value]
    if isinstance(value, dict):
        return {key: _unescaped(item) for key, item in value.items()}
    if isinstance(value, str):
        return re.sub(r"((?:\\\\)*)\\\$\{", lambda match: match[1][::2] + "${", value)
    return value


def unquoted(text: str) -> str:
    """The text inside Hydra's quotes, for commands whose words Hydra does not parse."""
    quote = text[:1]
    if len(text) < 2 or quote not in ("'", '"') or text[-1] != quote:
        return text
    # Inside quotes, a backslash before a quote or at the end is written twice.
    inner = re.sub(rf"(\\+)({quote}|\Z)", lambda m: "\\" * (len(m[1]) // 2) + m[2], text[1:-1])
    return str(_unescaped(inner))


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
        if re.fullmatch(r"[A-Za-z0-9_./-]+", value) and not _is_null_boolean_or_number(value):
            return value
        # OmegaConf replaces ${...} by the value of another key unless a backslash precedes it.
        value = re.sub(r"(\\*)\$\{", lambda match: 2 * match[1] + "\\${", value)
        # Inside quotes, Hydra reads a backslash as an escape only if a quote follows it.
        return "'" + re.sub(r"(\\*)('|\Z)", _escaped_quote, value) + "'"
    return repr(value)


def _escaped_quote(match: re.Match[str]) -> str:
    backslashes, quote = match.groups()
    return 2 * backslashes + ("\\'" if quote else "")


def _is_null_boolean_or_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return text.lower() in ("null", "true", "false")


class Composer:
    """Composes resolved configs with Hydra, about 30 ms each, and caches them by overrides."""

    def __init__(self, loader: Any) -> None:
        from hydra.core.override_parser.overrides_parser import OverridesParser

        self._parser = OverridesParser.create(config_loader=loader)
        self._composed: dict[tuple[str, ...], dict[str, Any]] = {}

    def parse(self, overrides: Sequence[str], *, intervals: bool = False) -> list[Any]:
        """Hydra `Override` objects; a ConfigError for an unsupported word or a key given twice.

        `intervals` : whether `key=interval(low,high)` is supported.
        """
        from hydra.errors import HydraException

        for before, text, after in zip(
            ["", *overrides], overrides, [*overrides[1:], ""], strict=False
        ):
            may_be_name = text.isidentifier() and not before.endswith(("=", ","))
            if may_be_name and (hint := option_named(text)):
                raise ConfigError(f"{text!r} is neither a command nor key=value: write {hint}")
            check_word(text, before, after)
        try:
            parsed = self._parser.parse_overrides(overrides=list(overrides))
            texts: dict[str, str] = {}
            for text, override in zip(overrides, parsed, strict=True):
                key = override.key_or_group
                if texts.setdefault(key, text) is not text:
                    raise ConfigError(
                        f"{key} is given twice, by {texts[key]} and {text}; several values are "
                        f"written -m {key}=A,B"
                    )
                if override.is_interval_sweep() and not intervals:
                    raise ConfigError(
                        f"{text}: `kbench tune` searches an interval of a method's key; write "
                        f"values here, as in {override.key_or_group}=1,3,10 with -m, or name a grid"
                    )
            return parsed
        except HydraException as error:
            typed = str(getattr(error, "override", None) or overrides[0])
            raise syntax_error(typed, str(error), intervals=intervals) from None

    def value(self, key: str, text: str) -> Any:
        """The typed value that Hydra's grammar reads in `text`; `\\${` in texts becomes `${`."""
        return _unescaped(self.parse([f"{key}={text}"])[0].value())

    def compose(self, overrides: Sequence[str]) -> dict[str, Any]:
        """One resolved configuration as plain dictionaries.

        Raises ConfigError: a group option, key or value does not exist or does not fit.
        """
        cache_key = tuple(overrides)
        if cache_key not in self._composed:
            self._composed[cache_key] = self._compose(overrides)
        return copy.deepcopy(self._composed[cache_key])

    def _compose(self, overrides: Sequence[str]) -> dict[str, Any]:
        from hydra import compose
        from hydra.errors import HydraException
        from omegaconf import OmegaConf, open_dict
        from omegaconf.errors import OmegaConfBaseException
        from yaml import YAMLError

        try:
            config = compose("config", list(overrides), return_hydra_config=True)
            choices = dict(config.hydra.runtime.choices)
            with open_dict(config):
                del config["hydra"]
            for group in _CONFINED_GROUPS:
                if choices.get(group) in (files := options(group)):
                    _check_confined(group, files[choices[group]])
            missing = sorted(OmegaConf.missing_keys(config))
            if missing:
                raise ConfigError(f"{missing[0]} has no value: add {missing[0]}=... to the command")
            plain = OmegaConf.to_container(config, resolve=True)
        except (HydraException, OmegaConfBaseException) as error:
            raise self._explain(error, overrides) from None
        except YAMLError as error:
            raise _not_yaml(error) from None
        except (ValueError, OSError) as error:  # a config file that Hydra cannot read
            raise ConfigError(one_line(error)) from None
        except RecursionError:
            raise ConfigError("a config file is nested too deeply, or includes itself") from None
        assert isinstance(plain, dict)
        for key in ("limits", "dataset", "grid", "results_dir"):
            if key not in plain:
                raise ConfigError(
                    f"the composed config has no {key!r}: {roots()[0] / 'config.yaml'} is not a "
                    "config of kbench; run elsewhere or rename that folder"
                )
        if plain.get("use") not in ("shipped", "none"):
            raise ConfigError(f"use is {plain.get('use')!r}, should be shipped or none")
        if isinstance(plain.get("tuned"), dict):
            file = f"configs/tuned/{choices.get('tuned')}.yaml"
            raise ConfigError(f"{file}: the first line should be '# @package method'")
        for key in ("method", "dataset", "limits", "plan"):
            if not isinstance(plain.get(key) or {}, dict):
                raise ConfigError(f"{key} is {plain[key]!r}, should be a mapping of keys")
        return {str(key): value for key, value in plain.items()}

    def _explain(self, error: Exception, overrides: Sequence[str]) -> ConfigError:
        from omegaconf.errors import GrammarParseError, InterpolationResolutionError

        text = str(error)
        words = [word for word in overrides if interpolates(word)]
        if unset := re.search(r"Environment variable '(\w+)' not found", text):
            return ConfigError(f"{(words or [''])[0]}: the environment has no variable {unset[1]}")
        if words and isinstance(error, (InterpolationResolutionError, GrammarParseError)):
            return ConfigError(
                f"{words[0]}: ${{...}} stands for the value of another key, and no key has "
                "this name; write \\${...} where these characters are meant"
            )
        match = re.match(r"Could not (?:override|append to config|delete).*?'([^']+)'", text)
        if match is None:
            return ConfigError(one_line(text.split("\nConfig search path")[0].split("\nSee ")[0]))
        key = match.group(1).split("@")[0]
        if "already at" in text:
            return ConfigError(f"{key} exists already: write {key}=... without the +")
        group_choices = [o for o in overrides if re.match(r"\+?(method|dataset|grid|limits)=", o)]
        keys = set(flatten(self.compose(group_choices)))
        keys |= {k.rpartition(".")[0] for k in keys if "." in k}
        hint = nearest(key, keys) or nearest(f"method.{key}", keys)
        same_tail = [k for k in keys if k.rpartition(".")[2] == key]
        if same_tail:
            ranked = sorted(same_tail, key=lambda k: (not k.startswith("method."), ".use." in k, k))
            hint = f" (nearest: {', '.join(ranked[:3])})"
        hint = synonym(key) or hint
        if any(word.startswith(f"~{key}=") for word in overrides):
            return ConfigError(f"{key} has another value: write ~{key} without =")
        if key == "dataset.path":
            hint = ": it is for a file of yours, without dataset=NAME"
        addition = f"; a new key is written +{key}=..." if _EXTENSIBLE.match(key) else ""
        return ConfigError(f"no key is called {key!r}{hint}{addition}")


class _ParsedFiles:
    """Hydra's repository of config files, each file read and parsed once.

    Hydra copies its repository for every composition and reads about twenty files again, which
    takes most of the time of a plan with hundreds of pairs of methods and data sets.
    """

    def __init__(self, repository: Any) -> None:
        self._repository = repository
        self._files: dict[str, Any] = {}

    def __deepcopy__(self, _: Any) -> "_ParsedFiles":
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._repository, name)

    def load_config(self, config_path: str) -> Any:
        if config_path not in self._files:
            loaded = self._repository.load_config(config_path)
            if config_path == "hydra/config":
                _keep_needed_settings(loaded)
            self._files[config_path] = loaded
        return copy.deepcopy(self._files[config_path])  # Hydra removes keys from what it gets


def _keep_needed_settings(loaded: Any) -> None:
    """Keep only Hydra's settings that a composition reads or writes.

    Settings of its launchers, sweepers, logs and help take half of the time of a composition.
    """
    from omegaconf import OmegaConf

    names = ("searchpath", "overrides", "job", "runtime")
    loaded.config = OmegaConf.create({name: loaded.config[name] for name in names})
    loaded.defaults_list = []


@contextmanager
def composer() -> Iterator[Composer]:
    """A Composer over the folders of `roots()`; Hydra's global state is put back afterwards."""
    import logging

    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin
    from omegaconf import OmegaConf

    first, *other_roots = roots()

    class KbenchSearchPath(SearchPathPlugin):
        def manipulate_search_path(self, search_path: Any) -> None:
            for root in other_roots:
                search_path.append("kbench", f"file://{root}")

    if not OmegaConf.has_resolver("use"):
        OmegaConf.register_new_resolver("use", _resolve_use)
    logging.getLogger("hydra").setLevel(logging.ERROR)
    Plugins.instance().register(KbenchSearchPath)
    try:
        with initialize_config_dir(str(first), version_base="1.3"):
            loader: Any = GlobalHydra.instance().config_loader()
            loader.repository = _ParsedFiles(loader.repository)
            yield Composer(loader)
    finally:
        for registered in Plugins.instance().plugin_type_to_subclass_list.values():
            if KbenchSearchPath in registered:
                registered.remove(KbenchSearchPath)


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{'a': {'b': 1}} becomes {'a.b': 1}; lists and empty mappings are leaves."""
    leaves: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            leaves |= flatten(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves
