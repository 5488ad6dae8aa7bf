"""Draw docs/images again: screenshots of the report's pages and the figures of the gallery.

    make tables docs
    python docs/pictures.py

The screenshots need Chromium (`tests/report/chromium.py` drives it); they show results/_report as
it is, light and dark, at the widths of a phone and of a laptop.
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
# Name -> width and height in pixels, the address within the page, colour scheme.
COVTYPE = "#data-covtype_93k-binary-2172b0-74370-18592-54-2"
SHOTS = {
    "report-overview": (1280, 860, "", "light"),
    "papers-claims": (1280, 860, "#claims", "light"),
    "papers-table": (1280, 900, "#dcsvm_table3", "light"),
    "report-desktop-light": (1280, 900, COVTYPE, "light"),
    "report-desktop-dark": (1280, 900, COVTYPE, "dark"),
    "report-phone-light": (390, 844, "#claims", "light"),
    "report-phone-dark": (390, 844, "", "dark"),
}


def screenshots() -> None:
    """The pages as they are, and one cell opened."""
    page = (ROOT / "results" / "_report" / "index.html").as_uri()
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as browser:
        for name, (width, height, address, scheme) in SHOTS.items():
            browser.size(width, height)
            browser.prefer(scheme)
            browser.open("about:blank")
            browser.open(page + address)
            time.sleep(1)
            browser.screenshot(IMAGES / f"{name}.png")
        browser.size(1280, 860)
        browser.prefer("light")
        browser.open("about:blank")
        browser.open(page + "#dcsvm_table3")
        time.sleep(1)
        browser.js("document.querySelectorAll('#detail td[data-r] a')[2].click()")
        time.sleep(1)
        browser.js("document.querySelector('#runs details').open = true")
        time.sleep(1)
        browser.screenshot(IMAGES / "report-run.png")


def figures() -> None:
    """The gallery's figures, which the guide's pages show."""
    for path in sorted((ROOT / "docs" / "auto_examples" / "images").glob("sphx_glr_*_001.png")):
        name = path.stem.removeprefix("sphx_glr_").removesuffix("_001")
        shrink(path, IMAGES / f"gallery-{name}.png")


def shrink(path: Path, target: Path) -> None:
    """Write the picture with 128 colours, which makes it three times smaller."""
    Image.open(path).convert("RGB").quantize(128, dither=0).save(target, optimize=True)


if __name__ == "__main__":
    figures()
    screenshots()
    for path in IMAGES.glob("*.png"):
        shrink(path, path)
