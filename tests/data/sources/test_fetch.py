"""Downloads against a server on this machine: resume, checksums, and every way to fail."""

import email.utils
import hashlib
import http.server
import lzma
import os
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from support import left_over, libsvm_text, one_file, shipped

from kbench.data import fingerprint, locate, open_prepared, prepare
from kbench.data.sources import fetch as fetching
from kbench.data.sources.folders import FileStatus, in_catalogue
from kbench.errors import ConfigError, DataError, DataNotFoundError

X = np.random.default_rng(0).normal(size=(400, 5)).round(4)
TEXT = libsvm_text(X, np.sign(X[:, 0])).encode()
BODY = lzma.compress(TEXT)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.body` as the server's knobs say, and writes down what was asked."""

    def do_GET(self):
        server = self.server
        server.asked.append((self.headers.get("Range"), self.headers.get("If-Range")))
        if server.code != 200:
            self.send_error(server.code)
            return
        start, date = 0, email.utils.formatdate(server.date, usegmt=True)
        if self.headers.get("Range") and self.headers.get("If-Range") == date:
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        if start > 0 and start >= len(server.body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if server.dated:
            self.send_header("Last-Modified", date)
        self.send_header("Content-Length", str(len(server.body) - start))
        self.end_headers()
        piece = server.body[start:]
        if server.breaks:
            piece = piece[: server.breaks.pop(0)]
        self.wfile.write(piece)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        served.body, served.code, served.date, served.dated = BODY, 200, 1_700_000_000, True
        served.breaks, served.asked = [], []
        thread = threading.Thread(target=served.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield served
        served.shutdown()
        thread.join()


@pytest.fixture
def config(server):
    def make(**file):
        url = f"http://127.0.0.1:{server.server_address[1]}/toy.xz"
        made = one_file()
        made["source"]["files"]["all"] |= {"url": url, **file}
        return made

    return make


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_fetched_file_lies_in_the_own_folder_and_is_fetched_once(server, config, folders):
    data = open_prepared(prepare(config(), folders))
    assert data.n_train == 300
    assert (folders.own / "toy.xz").read_bytes() == BODY
    assert locate(config(), folders)[0].path == folders.own / "toy.xz"
    assert len(server.asked) == 1
    assert left_over(folders.own) == []


def test_a_broken_connection_is_taken_up_where_it_broke(server, config, folders):
    server.breaks = [100, 150]
    prepare(config(), folders)
    assert [asked for asked, _ in server.asked] == [None, "bytes=100-", "bytes=250-"]
    assert (folders.own / "toy.xz").read_bytes() == BODY


def test_a_later_start_takes_up_what_waits(server, config, folders):
    server.breaks = [50, 50, 50]
    with pytest.raises(DataNotFoundError, match=r"failed: the connection ended after 150 of \d+"):
        prepare(config(), folders)
    assert [os.path.basename(p) for p in left_over(folders.own)] == [".toy.xz.part"]
    prepare(config(), folders)
    assert server.asked[-1][0] == "bytes=150-"
    assert (folders.own / "toy.xz").read_bytes() == BODY
    assert left_over(folders.own) == []


@pytest.mark.parametrize("dated", [True, False])
def test_a_file_that_changed_meanwhile_is_fetched_from_its_start(server, config, folders, dated):
    server.breaks, server.dated = [50, 50, 50], dated
    with pytest.raises(DataNotFoundError):
        prepare(config(), folders)
    server.date, server.body = server.date + 60, lzma.compress(TEXT + TEXT)
    prepare(config(), folders)
    assert (folders.own / "toy.xz").read_bytes() == server.body


def test_a_file_that_became_shorter_is_fetched_from_its_start(server, config, folders):
    server.breaks = [len(BODY) - 1] * 1 + [0, 0]
    with pytest.raises(DataNotFoundError):
        prepare(config(), folders)
    server.body = lzma.compress(TEXT[:2000].rpartition(b"\n")[0])
    prepare(config(), folders)
    assert (folders.own / "toy.xz").read_bytes() == server.body


def test_the_published_checksum_is_asked_for(server, config, folders):
    wrong = "0" * 64
    with pytest.raises(DataError, match=rf"toy\.xz: sha256 is [0-9a-f]{{64}}, should be {wrong}"):
        prepare(config(sha256=wrong), folders)
    assert left_over(folders.own) == []
    assert not (folders.own / "toy.xz").exists()
    prepare(config(sha256=hashlib.sha256(BODY).hexdigest()), folders)


def test_without_one_the_first_that_was_seen_counts(server, config, folders):
    prepare(config(), folders)
    (folders.own / "toy.xz").unlink()
    server.body = lzma.compress(TEXT + b"1 1:1\n")
    with pytest.raises(DataError, match=r"the first download had .*_fetched\.json"):
        prepare(config(), folders)
    assert not (folders.own / "toy.xz").exists()
    assert left_over(folders.own) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b"\n <!DOCTYPE html><html>moved</html>",
            "sent an HTML or XML page, should be the file toy",
        ),
        (b"", "sent an empty file"),
    ],
)
def test_a_page_in_place_of_the_file(server, config, folders, body, message):
    server.body = body
    with pytest.raises(DataError, match=message):
        prepare(config(), folders)
    assert left_over(folders.own) == []


@pytest.mark.parametrize("code", [404, 403, 500])
def test_a_server_that_refuses(server, config, folders, code):
    server.code = code
    pattern = (
        rf"toy is not there, fetching http://.*/toy\.xz failed: HTTP {code} .*; put it .* into"
    )
    with pytest.raises(DataNotFoundError, match=pattern) as error:
        prepare(config(), folders)
    assert "\n" not in str(error.value)
    assert left_over(folders.own) == []


def test_no_network(config, folders):
    """A port on which nobody listens, and a name that no server has."""
    for url in ("http://127.0.0.1:9/toy.xz", "http://no-such-host.invalid/toy.xz"):
        with pytest.raises(DataNotFoundError, match=r"fetching http://.* failed: .*; put it"):
            prepare(config(url=url), folders)
    assert left_over(folders.own) == []


def test_a_full_disk_while_fetching_leaves_nothing(server, config, folders, largest_file):
    with (
        largest_file(100),
        pytest.raises(DataError, match=r"no space left to write .*datasets_dir=FOLDER"),
    ):
        prepare(config(), folders)
    assert left_over(folders.own) == []


def test_download_false_asks_nobody(server, config, folders):
    with pytest.raises(DataNotFoundError, match="it comes from http"):
        prepare(config(), folders, download=False)
    assert server.asked == []
    assert not folders.own.exists()


def test_urls_name_files_that_are_looked_for(folders):
    """What `fetch` stores is what `locate` finds, for every data set that has a URL."""
    from support import CONFIGS

    for path in sorted((CONFIGS / "dataset").glob("*.yaml")):
        made = shipped(path.stem)
        for file in (made["source"].get("files") or {}).values():
            for wanted in (file, file.get("otherwise")):
                if wanted and wanted.get("url") and not in_catalogue(wanted["url"]):
                    stored = wanted["url"].rpartition("/")[2]
                    suffixes = ("", ".xz", ".bz2", ".gz", ".zip")
                    assert stored in [n + s for n in wanted["names"] for s in suffixes], path


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/..%2F..%2Fescaped",
        "http://127.0.0.1:9/%2e%2e",
        "http://127.0.0.1:9/..%5Cescaped",
        "http://127.0.0.1:9/_fetched.json",
        "http://127.0.0.1:9/",
        "ftp://127.0.0.1/toy",
        "data:text/plain,1",
        "/etc/passwd",
    ],
)
def test_an_address_names_a_file_within_the_folder(folders, config, url):
    with pytest.raises(ConfigError, match=r"url is '.*', should be http://"):
        prepare(config(url=url), folders)
    file = FileStatus("all", "toy", None, url, None, ())
    with pytest.raises(ConfigError, match="should be an http or https address"):
        fetching.fetch(file, folders)
    assert not folders.own.exists()


@pytest.mark.parametrize("name", ["../../secret.txt", "/etc/passwd", "..", "a/b", "_x", ""])
def test_names_of_files_stay_within_the_folders(folders, config, name):
    made = config(names=[name])
    for call in (prepare, locate, fingerprint):
        with pytest.raises(ConfigError, match="file name"):
            call(made, folders)


def test_a_file_address_needs_the_word_of_the_user(tmp_path, folders, config):
    path = tmp_path / "toy.xz"
    path.write_bytes(BODY)
    with pytest.raises(ConfigError, match="only by kbench data prepare NAME allow_file_urls=true"):
        prepare(config(url=path.as_uri()), folders)
    assert not folders.own.exists()
    allowed = replace(folders, file_urls=True)
    assert open_prepared(prepare(config(url=path.as_uri()), allowed)).n_train == 300
    assert (folders.own / "toy.xz").read_bytes() == BODY
