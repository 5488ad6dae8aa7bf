"""A site of pages and rows: what is published comes back, and a stranger's site is not believed."""

import functools
import hashlib
import http.server
import json
import threading

import pandas as pd
import pytest
from result_rows import CURVE, make_row, sorted_rows, write_environment

from kbench.cli import main
from kbench.errors import ConfigError, DataError
from kbench.run.results.folder import MODELS, TRIALS, ResultsFolder
from kbench.run.results.publishing import MANIFEST, publish_rows, published_rows


@pytest.fixture
def folder(tmp_path):
    """Rows of two environments with a curve, a log, a model and a trial."""
    folder = ResultsFolder(tmp_path / "own")
    folder.write(make_row(0), [CURVE])
    folder.write(make_row(0, attempt=2, accuracy=0.75))
    folder.write(make_row(1, environment="ffffffff", status="timeout", accuracy=None))
    ResultsFolder(folder.path / TRIALS).write(make_row(3, variant="tune"))
    for name in ("0a1b2c3d", "ffffffff"):
        write_environment(folder.path, name, name)
    for name in ("_logs/a.txt", f"{MODELS}/a.npz"):
        (folder.path / name).parent.mkdir(exist_ok=True)
        (folder.path / name).write_text("private")
    return folder


@pytest.fixture
def served(tmp_path):
    """The address of a folder `site` behind Python's web server."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    (tmp_path / "site").mkdir()
    handler = functools.partial(Quiet, directory=str(tmp_path / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_what_is_published_comes_back_over_http_and_twice_is_once(
    folder, tmp_path, served, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site").rmdir()
    assert main(["publish", "out=site", "results_dir=own"]) == 0
    assert "3 rows" in capsys.readouterr().out
    for expected in ("3 rows brought", "0 rows brought, 3 are here already"):
        assert main(["import", f"{served}index.html", "results_dir=new"]) == 0
        assert expected.partition(",")[0] in capsys.readouterr().out
    pd.testing.assert_frame_equal(sorted_rows(tmp_path / "new"), sorted_rows(folder.path))
    theirs = ResultsFolder(tmp_path / "new").read_curves(reference=False)
    pd.testing.assert_frame_equal(theirs, folder.read_curves(reference=False))
    assert ResultsFolder(tmp_path / "new").environments() == folder.environments()
    assert main(["publish", "out=site", "results_dir=new"]) == 0
    site = tmp_path / "site"
    assert (site / "index.html").is_file()
    assert not [p for p in site.rglob("*") if p.is_file() and b"private" in p.read_bytes()]
    assert not (tmp_path / "new" / TRIALS).exists()


def test_a_folder_with_other_files_is_left_alone(folder, tmp_path, capsys):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "index.html").write_text("mine")
    words = [f"out={tmp_path / 'thesis'}", f"results_dir={folder.path}"]
    assert main(["publish", *words]) == 2
    assert "holds other files" in capsys.readouterr().err
    assert (tmp_path / "thesis" / "index.html").read_text() == "mine"


def entry(content=b"x", **changes):
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), **changes}


@pytest.mark.parametrize(
    "manifest",
    [
        "[]",
        "{",
        '{"files": 3}',
        {"../../evil.parquet": entry()},
        {"/tmp/evil.parquet": entry()},
        {"_models/evil.npz": entry()},
        {"_logs/evil.txt": entry()},
        {".evil.parquet": entry()},
        {"a.parquet": entry(bytes=-1)},
        {"a.parquet": entry(bytes=1 << 60)},
        {"a.parquet": entry(bytes=True)},
        {"a.parquet": entry(sha256=None)},
        {"a.parquet": 7},
    ],
)
def test_a_manifest_that_is_none_writes_nothing(tmp_path, manifest):
    text = manifest if isinstance(manifest, str) else json.dumps({"files": manifest})
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / MANIFEST).write_text(text)
    with (
        pytest.raises(DataError, match="is not a manifest of kbench"),
        published_rows(str(tmp_path), lambda _: None),
    ):
        pass
    assert [p.name for p in tmp_path.rglob("*")] == ["rows", MANIFEST]


@pytest.mark.parametrize("change", ["longer", "other", "gone"])
@pytest.mark.parametrize("over_http", [True, False])
def test_a_file_that_differs_from_the_manifest_is_named(
    folder, tmp_path, served, change, over_http
):
    site = tmp_path / "site"
    publish_rows(folder.path, site)
    (file,) = (site / "rows").glob("merged-*.parquet")
    content = file.read_bytes()
    file.unlink() if change == "gone" else file.write_bytes(
        content + b"x" if change == "longer" else content[:-1] + b"?"
    )
    place = served if over_http else str(site)
    with (
        pytest.raises(DataError, match=file.name),
        published_rows(place, lambda _: None),
    ):
        pass


def test_a_place_without_rows_is_one_line(tmp_path, served):
    for place, error in ((served, DataError), (str(tmp_path), ConfigError)):
        with pytest.raises(error, match="rows"), published_rows(place, lambda _: None):
            pass
