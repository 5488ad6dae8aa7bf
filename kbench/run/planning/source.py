"""A hash of a method's source code, by which `rerun=changed` finds edited methods.

The source is the module of the class, the packages that contain it, and all modules of the same
package and of kbench that these import, directly or through other modules. Import statements,
including those in functions, are read from the text of the files without importing them.
`kbench.methods` imports the module of a method when its name is first used, so that an edit of a
method does not change the hashes of other methods.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

# Packages whose version stands for their source -> names of their distributions.
_VERSIONED = {"sklearn": "scikit-learn", "sklearnex": "scikit-learn-intelex"}


@cache
def source_sha256(target: str) -> str | None:
    """Hash of the source files on which the classes of a target (see `registry`) depend.

    None if the source of a class is not available.
    """
    from kbench.run.planning.registry import parse_target

    class_text, parts = parse_target(target)
    modules = [name.partition(":") for name in (class_text, *parts.values())]
    names = {(module, name) for module, _, name in modules}
    digest = hashlib.sha256()
    for package in sorted({module.partition(".")[0] for module, _ in names} & set(_VERSIONED)):
        try:
            digest.update(f"{package} {version(_VERSIONED[package])}".encode())
        except PackageNotFoundError:
            return None
    pairs = {(module, name) for module, name in names if module.partition(".")[0] not in _VERSIONED}
    if any(_source_file(module) is None for module, _ in pairs):
        return None
    for module in sorted(modules_of(pairs)):
        file = _source_file(module)
        assert file is not None
        digest.update(module.encode() + b"\0" + file.read_bytes())
    digest.update(target.encode() if parts else b"")
    return digest.hexdigest()


def modules_of(names: set[tuple[str, str]]) -> set[str]:
    """The modules of (module, name) pairs, and the modules that these import, directly or not.

    Only modules of kbench and of the pairs' top-level packages count. `name` is empty for a module
    itself.
    """
    roots = {"kbench", *(module.partition(".")[0] for module, _ in names)}
    modules: set[str] = set()
    todo = list(names)
    while todo:
        module, name = todo.pop()
        for loaded in _modules_loaded(module, name) - modules:
            modules.add(loaded)
            todo += [pair for pair in _imports(loaded) if pair[0].partition(".")[0] in roots]
    return modules


def _modules_loaded(module: str, name: str) -> set[str]:
    """The modules that `from module import name` loads, and the packages that contain them."""
    loaded = {module, f"{module}.{name}"}
    if _source_file(module) is not None:
        loaded.add(_lazy_names(module).get(name, module))
    packages = {dotted.rsplit(".", n)[0] for dotted in loaded for n in range(dotted.count(".") + 1)}
    return {package for package in packages if _source_file(package) is not None}


@cache
def _imports(module: str) -> frozenset[tuple[str, str]]:
    """(module, name) of every import statement of a module; name is empty for `import module`.

    Imports under `if TYPE_CHECKING:` are left out.
    """
    return frozenset(_import_statements(module, for_types=False))


def _import_statements(module: str, *, for_types: bool) -> Iterator[tuple[str, str]]:
    """The imports of a module under `if TYPE_CHECKING:` (with `for_types`), or all others."""
    file = _source_file(module)
    assert file is not None
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    todo: list[tuple[ast.AST, bool]] = [(_syntax_tree(module), False)]
    while todo:
        node, is_typing = todo.pop()
        is_typing |= isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        todo += [(child, is_typing) for child in ast.iter_child_nodes(node)]
        if is_typing != for_types:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                parents = package.split(".")[: package.count(".") + 2 - node.level]
                origin = ".".join([*parents, *filter(None, [node.module])])
            yield from ((origin, alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and node.attr == "iter_modules":
            # Packages such as `kbench.kernels.functions` import every module of their folder.
            names = (path.stem for path in file.parent.glob("[!_]*.py"))
            yield from ((f"{module}.{name}", "") for name in names)


@cache
def _lazy_names(package: str) -> dict[str, str]:
    """name -> module, for names that a package imports when they are first used.

    Such names are in a dictionary of the package, or under `if TYPE_CHECKING:`.
    """
    names = {name: origin for origin, name in _import_statements(package, for_types=True)}
    for node in ast.walk(_syntax_tree(package)):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                name, origin = getattr(key, "value", None), getattr(value, "value", None)
                if isinstance(name, str) and isinstance(origin, str):
                    names[name] = origin
    return names


@cache
def _syntax_tree(module: str) -> ast.Module:
    file = _source_file(module)
    assert file is not None
    try:
        return ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # the import of the module raises it again
        return ast.Module([], [])


@cache
def _search_folders(package: str) -> tuple[Path, ...]:
    """The folders that contain a top-level package or module, found without its import."""
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
def _source_file(module: str) -> Path | None:
    """The source file of a module; None if there is none."""
    words = module.split(".")
    if not all(word.isidentifier() for word in words):
        return None
    for folder in _search_folders(words[0]):
        stem = folder.joinpath(*words)
        for path in (stem / "__init__.py", stem.with_suffix(".py")):
            if path.is_file():
                return path
    return None
