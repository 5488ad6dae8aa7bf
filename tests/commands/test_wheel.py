"""The wheel alone, unpacked beside nothing: it carries its configs and works in an empty folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

import harness
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with what an installer takes out of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    target = folder / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def kbench(site, here, *words):
    return harness.kbench(here, *words, env={"PYTHONPATH": str(site)})


def test_the_wheel_holds_code_and_configs_and_nothing_else(site):
    top = {path.name for path in site.iterdir()}
    assert {name.partition("-")[0] for name in top} == {"kbench"}
    shipped = {str(p.relative_to(ROOT)) for p in (ROOT / "configs").rglob("*.yaml")}
    own = {str(p.relative_to(ROOT / "kbench")) for p in (ROOT / "kbench").rglob("*.yaml")}
    packed = {str(p.relative_to(site / "kbench")) for p in (site / "kbench").rglob("*.yaml")}
    assert packed == shipped | own


def test_it_works_in_an_empty_folder(site, tmp_path):
    listed = kbench(site, tmp_path, "list")
    assert listed.returncode == 0, listed.stderr
    assert "\n  svc " in listed.stdout
    done = kbench(site, tmp_path, "method=svc", "dataset=digits")
    assert done.returncode == 0, done.stderr
    page = kbench(site, tmp_path, "report", "format=html")
    assert (page.returncode, page.stdout) == (0, "report.html\n"), page.stderr
    assert "</html>" in (tmp_path / "report.html").read_text()
    doctor = kbench(site, tmp_path, "doctor")
    assert str(site / "kbench" / "configs") in doctor.stdout


def test_reference_rows_and_papers_come_along(site, tmp_path):
    table = kbench(site, tmp_path, "report", "papers", "table=dcsvm_table3", "format=json")
    assert table.returncode == 0, table.stderr
    assert "ijcnn1" in table.stdout
    (wheel,) = site.parent.glob("*.whl")
    assert wheel.stat().st_size < 8e6
