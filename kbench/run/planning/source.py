"""A hash of the source that a method runs, by which `rerun=changed` sees that it was edited.

The source is the module of the class and whatever Python imports with it, directly or not, from its
own package and from kbench:

    module -> the packages that it lies in, the modules that it imports -> theirs ...

Imports are read from the text of the files, also those inside of functions; nothing is imported.
`kbench.methods` imports the module of a method when its name is first used, so that an edit of one
method changes the hash of no other.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

# Packages that are identified by their release -> their names as distributions.
_RELEASED = {"sklearn": "scikit-learn", "sklearnex": "scikit-learn-intelex"}


@cache
def source_sha256(target: str) -> str | None:
    """Hash of the source files that the classes of a target depend on (`registry` says what it is).

    None if the source of one of the classes is not available.
    """
    from kbench.run.planning.registry import paths

    path, parts = paths(target)
    modules = [name.partition(":") for name in (path, *parts.values())]
    names = {(module, name) for module, _, name in modules}
    digest = hashlib.sha256()
    for package in sorted({module.partition(".")[0] for module, _ in names} & set(_RELEASED)):
        try:
            digest.update(f"{package} {version(_RELEASED[package])}".encode())
        except PackageNotFoundError:
            return None
    own = {(module, name) for module, name in names if module.partition(".")[0] not in _RELEASED}
    if any(_file(module) is None for module, _ in own):
        return None
    for module in sorted(modules_of(own)):
        file = _file(module)
        assert file is not None
        digest.update(module.encode() + b"\0" + file.read_bytes())
    digest.update(target.encode() if parts else b"")
    return digest.hexdigest()


def modules_of(names: set[tuple[str, str]]) -> set[str]:
    """Modules that hold (module, name) pairs, and all that they import from kbench or themselves.

    `name` is empty where the module itself is meant.
    """
    roots = {"kbench", *(module.partition(".")[0] for module, _ in names)}
    modules: set[str] = set()
    todo = list(names)
    while todo:
        module, name = todo.pop()
        for loaded in _loaded(module, name) - modules:
            modules.add(loaded)
            todo += [pair for pair in _imports(loaded) if pair[0].partition(".")[0] in roots]
    return modules


def _loaded(module: str, name: str) -> set[str]:
    """Modules that `from module import name` loads, with the packages that they lie in."""
    loaded = {module, f"{module}.{name}"}
    if _file(module) is not None:
        loaded.add(_late_names(module).get(name, module))
    packages = {dotted.rsplit(".", n)[0] for dotted in loaded for n in range(dotted.count(".") + 1)}
    return {package for package in packages if _file(package) is not None}


@cache
def _imports(module: str) -> frozenset[tuple[str, str]]:
    """(module, name) of every import statement of a module; name is empty for `import module`.

    Imports for the type checker alone are left out.
    """
    return frozenset(_statements(module, for_types=False))


def _statements(module: str, *, for_types: bool) -> Iterator[tuple[str, str]]:
    """The imports of a module: those under `if TYPE_CHECKING:`, or all others."""
    file = _file(module)
    assert file is not None
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    todo: list[tuple[ast.AST, bool]] = [(_tree(module), False)]
    while todo:
        node, below = todo.pop()
        below = below or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        todo += [(child, below) for child in ast.iter_child_nodes(node)]
        if below != for_types:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                above = package.split(".")[: package.count(".") + 2 - node.level]
                origin = ".".join([*above, *filter(None, [node.module])])
            yield from ((origin, alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and node.attr == "iter_modules":
            # A package that imports whatever lies in its folder, as `kbench.kernels.functions`.
            names = (path.stem for path in file.parent.glob("[!_]*.py"))
            yield from ((f"{module}.{name}", "") for name in names)


@cache
def _late_names(package: str) -> dict[str, str]:
    """name -> module, of names that a package imports when they are first used.

    Such a package states them in a table, or for the type checker.
    """
    names = {name: origin for origin, name in _statements(package, for_types=True)}
    for node in ast.walk(_tree(package)):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                name, origin = getattr(key, "value", None), getattr(value, "value", None)
                if isinstance(name, str) and isinstance(origin, str):
                    names[name] = origin
    return names


@cache
def _tree(module: str) -> ast.Module:
    file = _file(module)
    assert file is not None
    try:
        return ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # the import of the module says so
        return ast.Module([], [])


@cache
def _folders(package: str) -> tuple[Path, ...]:
    """Folders that hold a package or module of the top level, which is not imported."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return ()
    if spec is None:
        return ()
    if spec.submodule_search_locations:
        return tuple(Path(folder).parent for folder in spec.submodule_search_locations)
    return (Path(spec.origin).parent,) if spec.origin else ()


@cache
def _file(module: str) -> Path | None:
    """The source file of a module; None if there is none."""
    words = module.split(".")
    if not all(word.isidentifier() for word in words):
        return None
    for folder in _folders(words[0]):
        place = folder.joinpath(*words)
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if path.is_file():
                return path
    return None
