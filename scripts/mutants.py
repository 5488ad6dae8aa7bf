"""How sharp are the tests? Changes kbench/ in one place at a time and counts what a test notices.

    python scripts/mutants.py --out RESULTS.json [--count N] [--seed N] [--jobs N] [--only PATH]
                              [--limit SECONDS] [--wall SECONDS] [--tier first|both]

draws N places of the syntax trees below PATH and changes each alone: a comparison, `+` and `-`, `*`
and `/`, `and` and `or`, a number or truth value, a `not`, a condition, `break`, `min`, or a
statement that is left out. Strings, annotations, decorators and `__all__` stay as they are.

Each mutant is judged by the tests that could know it, the nearest first: the test file of its name,
its folder in tests/, the folder above, and other files that name what the module defines. It is
*killed* by the first test that fails, or that runs for half of the limit; it *survived* if all
pass, and is *alive* if they still passed when its limit was reached. Tests that fail without any
change, as a first run over their files finds, are left out.

Every job has a copy of the tree. What it has compiled is thrown away for a mutant that compiled
code may hold, one of a module with compiled functions or outside of any function; it has twice the
limit. kbench need not be installed: the copies hold its entry points. The tests' packages must be.
"""

import argparse
import ast
import concurrent.futures
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TIERS = {"first": "not soak", "second": "soak"}
COMPILED = re.compile(r"\bnjit\(|@(\w+\.)?(njit|intrinsic|overload|register_jitable)\b")
LEFT_OUT = {"annotation", "returns", "decorator_list", "type_params"}
EXTREMA = {"min": "max", "minimum": "maximum", "argmin": "argmax"}
EXTREMA |= {new: old for old, new in EXTREMA.items()}
PAIRS = ("Eq NotEq", "Is IsNot", "In NotIn", "Add Sub", "Mult Div", "And Or")
OPERATORS = {"Lt": "LtE GtE", "LtE": "Lt Gt", "Gt": "GtE LtE", "GtE": "Gt Lt"}
for old, new in map(str.split, PAIRS):
    OPERATORS |= {old: new, new: old}


def changes(node, inside):
    """The texts that can stand in the place of `node`; `inside` says that it is in a function."""

    def others(operator):
        return [getattr(ast, name)() for name in OPERATORS.get(type(operator).__name__, "").split()]

    text = ast.unparse
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            yield repr(not value if isinstance(value, bool) else value + 1)
        case ast.Compare(ops=[old, *more]):
            for new in others(old):
                yield f"({text(ast.Compare(node.left, [new, *more], node.comparators))})"
        case ast.BoolOp(op=old):
            yield from (f"({text(ast.BoolOp(new, node.values))})" for new in others(old))
        case ast.BinOp(left, old, right):
            yield from (f"({text(ast.BinOp(left, new, right))})" for new in others(old))
        case ast.AugAssign(left, old, right):
            yield from (text(ast.AugAssign(left, new, right)) for new in others(old))
        case ast.UnaryOp(op=ast.Not()):
            yield f"({text(node.operand)})"
        case ast.Return(value=ast.Compare() | ast.BoolOp()):
            yield f"return not ({text(node.value)})"
        case ast.Break() | ast.Continue():
            yield "continue" if isinstance(node, ast.Break) else "break"
        case ast.Name(name) if name in EXTREMA:
            yield EXTREMA[name]
        case ast.Attribute(value, name) if name in EXTREMA:
            yield f"{text(value)}.{EXTREMA[name]}"
    match node:
        case ast.Expr(value=ast.Constant()):
            pass
        case ast.Expr() | ast.Assign() | ast.AugAssign() | ast.Raise() if inside:
            yield "pass"


def places(node, inside=False):
    """(node, new text, in a function?) of each change of a place below `node`."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if (
                name in LEFT_OUT
                or isinstance(child, ast.JoinedStr)
                or not isinstance(child, ast.AST)
            ):
                continue
            if name == "test" and isinstance(node, ast.If | ast.IfExp):
                yield from ((child, forced, inside) for forced in ("True", "False"))
            yield from ((child, text, inside) for text in changes(child, inside))
            yield from places(child, inside or isinstance(child, ast.FunctionDef | ast.Lambda))


def drawn(count, seed, only):
    """Mutants of `count` places, drawn from all below `only`, with one change of each."""
    found = defaultdict(list)
    for path in sorted(only.rglob("*.py")) if only.is_dir() else [only]:
        source = path.read_bytes()
        starts = [0, *(newline.end() for newline in re.finditer(b"\n", source))]
        for node, new, inside in places(ast.parse(source)):
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            baked = not inside or bool(COMPILED.search(source.decode()))
            mutant = {"file": str(path.relative_to(ROOT)), "line": node.lineno, "baked": baked}
            mutant |= {"begin": begin, "end": end, "new": new, "old": source[begin:end].decode()}
            found[path, begin, end].append(mutant)
    chance = random.Random(seed)
    return [chance.choice(found[p]) for p in chance.sample(sorted(found), min(count, len(found)))]


def tests_of(file):
    """Groups of test files that could know `file`, the nearest first."""
    path = ROOT / "tests" / Path(*Path(file).parts[1:])
    groups = [[*path.parent.glob(f"test_{path.stem}*.py")]]
    if path.parent != ROOT / "tests":
        groups.append([*path.parent.rglob("test_*.py")])
        if path.parent.parent != ROOT / "tests":
            groups.append([*path.parent.parent.glob("test_*.py")])
    body = ast.parse((ROOT / file).read_text()).body
    names = {n.name for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    dotted = ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")
    naming = Counter()
    for test in (ROOT / "tests").rglob("test_*.py"):
        text = test.read_text()
        naming[test] = len(names & {*re.findall(r"\w{5,}", text)}) + 2 * (dotted in text)
    groups.append([test for test, n in naming.most_common(8) if n])
    seen = set()
    for group in groups:
        yield [str(test.relative_to(ROOT)) for test in group if test not in seen]
        seen |= {*group}


def holders(files):
    """Of each of `files`: the modules with compiled functions that import it, directly or not."""
    modules, importers = {}, defaultdict(set)
    for path in (ROOT / "kbench").rglob("*.py"):
        file = path.relative_to(ROOT)
        modules[".".join(file.with_suffix("").parts).removesuffix(".__init__")] = str(file)
    for file in modules.values():
        for node in ast.walk(ast.parse((ROOT / file).read_text())):
            if isinstance(node, ast.ImportFrom):
                for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    importers[modules.get(name)].add(file)
    for file in files:
        reached, left = {file}, [file]
        while left:
            new = importers[left.pop()] - reached
            reached |= new
            left += new
        yield file, [f for f in sorted(reached) if COMPILED.search((ROOT / f).read_text())]


def note(what, nodeid):
    with Path(os.environ["MUTANTS"], "notes").open("a") as file:
        file.write(json.dumps([what, nodeid, time.time()]) + "\n")


# This file is a plug-in of the runs that it starts: they note what begins and what fails.
def pytest_runtest_logstart(nodeid):
    note("start", nodeid)


def pytest_runtest_logreport(report):
    if report.failed:
        note("failed", report.nodeid)


pytest_collectreport = pytest_runtest_logreport


def pytest_collection_modifyitems(items):
    bad = {*Path(os.environ["MUTANTS"], "bad").read_text().splitlines()}
    items[:] = [item for item in items if item.nodeid not in bad]


def run(tree, scratch, files, tier, seconds, bad, *options):
    """The exit code of pytest, None at the limit, and (what, test, time) in their order."""
    (scratch / "notes").write_text("")
    (scratch / "bad").write_text("\n".join(bad))
    paths = [str(tree), str(tree / "scripts"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment |= {"PYTHONPATH": os.pathsep.join(paths), "CI": "true", "MUTANTS": str(scratch)}
    for name in ("NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", "-m", TIERS[tier], f"--basetemp={scratch}/tmp", *options, *files]
    with (scratch / "output").open("w") as output:
        process = subprocess.Popen(
            command, cwd=tree, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = process.wait(max(seconds, 1))
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return code, [json.loads(line) for line in (scratch / "notes").read_text().splitlines()]


def judged(mutant, scratch, base, tier, bad, limit, end):
    """How `mutant` fared in the tree of `scratch`, left as it was: a word and the deciding test."""
    tree = scratch / "tree"
    path = tree / mutant["file"]
    source, times = path.read_bytes(), path.stat()
    stale = {mutant["file"], *(mutant["holders"] if mutant["baked"] else ())}

    def forget(back):
        for file in stale:
            cache, stem = Path(file).parent / "__pycache__", Path(file).stem
            for old in (tree / cache).glob(f"{stem}.*"):
                old.unlink()
            for kept in (base / cache).glob(f"{stem}.*") if back else ():
                shutil.copy2(kept, tree / cache)

    new = mutant["new"].encode()
    path.write_bytes(source[: mutant["begin"]] + new + source[mutant["end"] :])
    forget(back=False)
    seconds = min(limit * (1 + mutant["baked"]), end - time.time())
    options = ("-x", f"--timeout={limit / 2}")
    code, notes = run(tree, scratch, mutant["tests"], tier, seconds, bad, *options)
    path.write_bytes(source)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    forget(back=True)
    started = [(test, when) for what, test, when in notes if what == "start"]
    if code in (0, 5):
        return "survived", ""
    if code is not None:
        return "killed", next((test for what, test, _ in notes if what == "failed"), "conftest.py")
    if started and time.time() - started[-1][1] > limit / 2:
        return "killed", f"{started[-1][0]} (hangs)"
    return ("not reached" if time.time() >= end else "alive"), f"{len(started)} tests"


def furnished(base):
    """Copy the tree to `base`, with the entry points that an installation would have."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "datasets", "_build")
    shutil.copytree(ROOT, base, ignore=left_out)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = base / f"kbench-{project['version']}.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: kbench\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head)
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    lines = (f"[{group}]\n" + "\n".join(map(" = ".join, g.items())) for group, g in groups.items())
    (info / "entry_points.txt").write_text("\n".join(lines))
    return base


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=60, help="seconds of a mutant")
    parser.add_argument("--wall", type=float, default=36000, help="seconds of all")
    parser.add_argument("--tier", choices=["first", "both"], default="first")
    parser.add_argument("--only", default="kbench", help="file or folder below the root")
    given = parser.parse_args()
    begin = time.time()
    end = begin + given.wall
    tiers = [*TIERS][: 1 + (given.tier == "both")]
    mutants = drawn(given.count, given.seed, ROOT / given.only)
    groups = {file: [*tests_of(file)] for file in {mutant["file"] for mutant in mutants}}
    held = dict(holders(groups))
    work = Path(tempfile.mkdtemp(prefix="mutants"))
    base = furnished(work / "base")
    bad, seconds, scratches = set(), Counter(), queue.SimpleQueue()

    def unchanged(file, tier):
        scratch, begin = Path(tempfile.mkdtemp(dir=work)), time.time()
        longest = min(2 * given.limit, given.wall / 3)
        _, notes = run(base, scratch, [file], tier, longest, ())
        seconds[file] += time.time() - begin
        bad.update(test for what, test, _ in notes if what == "failed")

    def fate(mutant):
        scratch = scratches.get()
        for tier in tiers:
            mutant[tier] = ["survived" if not mutant["tests"] else "not reached", ""]
            if mutant["tests"] and time.time() < end:
                mutant[tier] = judged(mutant, scratch, base, tier, bad, given.limit, end)
            if mutant[tier][0] == "killed":
                break
        scratches.put(scratch)
        change = f"{mutant['old']} -> {mutant['new']}".replace("\n", " ")
        said = "; ".join(" ".join(mutant[tier]) for tier in tiers if tier in mutant)
        print(f"{mutant['file']}:{mutant['line']}: {change[:90]}: {said}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        needed = {file for several in groups.values() for group in several for file in group}
        largest = sorted(needed, key=lambda file: -(ROOT / file).stat().st_size)
        [*pool.map(unchanged, largest * len(tiers), sorted(tiers * len(largest)))]
        print(
            f"{len(needed)} files of tests, {time.time() - begin:.0f} s; these tests always fail:"
        )
        print(*sorted(bad), sep="\n", flush=True)
        for job in range(given.jobs):
            (work / str(job)).mkdir()
            shutil.copytree(base, work / str(job) / "tree")
            scratches.put(work / str(job))
        for mutant in mutants:
            files = [f for g in groups[mutant["file"]] for f in sorted(g, key=seconds.get)]
            mutant |= {"tests": files, "holders": held[mutant["file"]]}
            mutant["baked"] &= bool(mutant["holders"])
        # The longest first, so that none is left to the end.
        mutants.sort(key=lambda m: (-m["baked"], -sum(map(seconds.get, m["tests"]))))
        [*pool.map(fate, mutants)]
    given.out.write_text(json.dumps(mutants, indent=1))
    shutil.rmtree(work, ignore_errors=True)
    for tier in tiers:
        words = Counter(mutant[tier][0] for mutant in mutants if tier in mutant)
        tried = words.total() - words["not reached"]
        print(f"{tier} tier: {words['killed']} of {tried} killed; {dict(words)}")


if __name__ == "__main__":
    main()
