"""LaTeX as pdflatex sets it."""

import shutil
import subprocess

PDFLATEX = shutil.which("pdflatex")


def typeset(folder, text):
    """The file in `folder` that has the text, beside its .pdf and .log; fails on any error."""
    source = folder / "tables.tex"
    source.write_text(text)
    done = subprocess.run(
        [PDFLATEX, "-interaction=nonstopmode", "-halt-on-error", source.name],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return source
