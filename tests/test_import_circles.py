"""No module of kbench imports itself by way of others, be it inside a function."""

import ast
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

import kbench

PACKAGE = Path(kbench.__file__).parent

# Circles that are still to be broken, the modules of each without the leading `kbench.`. This list
# only shrinks: whoever breaks a circle deletes its line, and no line is added.
TO_BREAK: tuple[str, ...] = ()


def module_files():
    """Name -> file of each module; a package is the module of its `__init__`."""
    files = sorted(PACKAGE.rglob("*.py"))
    places = {file: file.relative_to(PACKAGE.parent).with_suffix("").parts for file in files}
    return {".".join(p[:-1] if p[-1] == "__init__" else p): file for file, p in places.items()}


def statements(tree):
    """The nodes of a module that run: all but those below `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for otherwise in node.orelse:
                yield otherwise
                yield from statements(otherwise)
        else:
            yield node
            yield from statements(node)


def imports(source, modules):
    """The modules of `modules` that a source text names in its import statements.

    `from package import name` imports `package.name` if that is a module, and else `package`.
    """
    found = set()
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "imports are absolute"
            inner = {f"{node.module}.{name.name}" for name in node.names}
            found |= {name if name in modules else node.module for name in inner}
    return found & set(modules)


def circles(graph):
    """The strongly connected components with more than one module."""
    names = sorted(graph)
    place = {name: i for i, name in enumerate(names)}
    edges = [(place[name], place[other]) for name in names for other in graph[name]]
    rows, columns = np.array(edges, dtype=int).reshape(-1, 2).T
    matrix = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(names),) * 2)
    _, labels = connected_components(matrix, connection="strong")
    groups = [{names[i] for i in np.flatnonzero(labels == k)} for k in range(labels.max() + 1)]
    return {frozenset(group) for group in groups if len(group) > 1}


def test_modules_do_not_import_each_other_in_circles():
    files = module_files()
    assert len(files) > 300
    graph = {name: imports(file.read_text(), files) - {name} for name, file in files.items()}
    met = {" ".join(sorted(n.removeprefix("kbench.") for n in group)) for group in circles(graph)}
    assert met <= set(TO_BREAK)


def test_a_circle_through_a_function_is_seen_and_one_for_types_is_not():
    modules = dict.fromkeys(["p", "p.a", "p.b", "p.c"])
    texts = {
        "p.a": "import p.b",
        "p.b": "def f():\n    from p import a",
        "p.c": "if TYPE_CHECKING:\n    from p.a import x\nelse:\n    import p.b",
    }
    graph = {name: imports(texts.get(name, ""), modules) for name in modules}
    assert graph["p.c"] == {"p.b"}
    assert circles(graph) == {frozenset({"p.a", "p.b"})}
    assert circles({**graph, "p.b": {"p.c"}}) == {frozenset({"p.b", "p.c"})}
