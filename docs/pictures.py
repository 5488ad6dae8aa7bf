"""Draw docs/images again: screenshots of the report's pages and the figures of the gallery.

    make tables docs
    python docs/pictures.py

The screenshots need Chromium (`tests/report/chromium.py` drives it); they show results/_report as
it is. A test demands that a page of the documentation shows each of them.
"""

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "report"))

from chromium import Browser  # noqa: E402
from PIL import Image  # noqa: E402

IMAGES = ROOT / "docs" / "images"
# Name -> width and height in pixels, the address within the page.
SHOTS = {"report-overview": (1280, 860, ""), "report-run": (1280, 860, "#dcsvm_table3")}


def screenshots() -> None:
    """The first view of the page, and a table of a paper with one cell opened."""
    page = (ROOT / "results" / "_report" / "index.html").as_uri()
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as browser:
        browser.prefer("light")
        for name, (width, height, address) in SHOTS.items():
            browser.size(width, height)
            browser.open("about:blank")
            browser.open(page + address)
            time.sleep(1)
            if address:
                browser.js("document.querySelectorAll('#detail td[data-r] a')[2].click()")
                time.sleep(1)
                browser.js("document.querySelector('#runs details').open = true")
                time.sleep(1)
            browser.screenshot(IMAGES / f"{name}.png")
            shrink(IMAGES / f"{name}.png", IMAGES / f"{name}.png")


def figures() -> None:
    """The gallery's figures that the guide's pages show."""
    for path in sorted((ROOT / "docs" / "auto_examples" / "images").glob("sphx_glr_*_001.png")):
        name = path.stem.removeprefix("sphx_glr_").removesuffix("_001")
        if (target := IMAGES / f"gallery-{name}.png").exists():
            shrink(path, target)


def shrink(path: Path, target: Path) -> None:
    """Write the picture with 128 colours, which makes it three times smaller."""
    Image.open(path).convert("RGB").quantize(128, dither=0).save(target, optimize=True)


if __name__ == "__main__":
    figures()
    screenshots()
