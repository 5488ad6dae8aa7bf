"""The site of the documentation: `make docs` writes it to docs/_build.

The pages are the Markdown files beside this one, read by MyST, so that the repository's own view of
them and the site are one text. The reference is made of the docstrings of what `__all__` of the
public packages names; the gallery is run while the site is built. Nothing needs a network.
"""

import importlib.util
import os
import re
import sys
from pathlib import Path

from kbench import __version__

# The gallery's examples call `kbench` and import nothing from the place where they are run.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

project = "kbench"
author = "the kbench developers"
copyright = "the kbench developers"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
root_doc = "index"
exclude_patterns = ["_build", "gallery", "notebooks", "auto_examples/*.ipynb"]
templates_path = ["_templates"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_typehints = "none"
default_role = "obj"
highlight_language = "text"
smartquotes = False
numpydoc_show_class_members = False

# Examples of a package that is not installed are left out.
ABSENT = [] if importlib.util.find_spec("mapie") else [r"uncertainty\.py$"]

sphinx_gallery_conf = {
    "ignore_pattern": "|".join([r"__init__\.py", *ABSENT]),
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 1e9,
    "show_memory": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = f"kbench {release}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["kbench.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

_UNDERLINE = re.compile(r"^\s*-{3,}\s*$")
_CODE = re.compile(r"(``.+?``|`[^`]+`(?:__?)?)")
_MARKUP = re.compile(r"\||(?<=\w)_(?=[^\w`]|$)")


def show_formulas_as_typed(app, what, name, obj, options, lines):
    """Make literal blocks of the indented formulas and pseudocode before a docstring's sections."""
    end = next((at - 1 for at, line in enumerate(lines) if _UNDERLINE.match(line)), len(lines))
    shown, inside = [], False
    for at, line in enumerate(lines[:end]):
        starts = line.startswith("    ") and at > 0 and not lines[at - 1].strip()
        if starts and not inside and not line.lstrip().startswith(("- ", ">>>")):
            shown += ["::", ""]
            inside = True
        elif line.strip() and not line.startswith("    "):
            inside = False
        shown.append(line)
    lines[:end] = shown


def escape_plain_text(app, what, name, obj, options, lines):
    """Escape ``|x|`` and ``classes_``: plain text in a docstring, markup to Sphinx."""
    literal: int | None = None
    for at, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if literal is not None and line.strip() and indent <= literal:
            literal = None
        if literal is None and not line.lstrip().startswith((">>>", "..")):
            pieces = _CODE.split(line)
            pieces[::2] = [_MARKUP.sub(r"\\\g<0>", piece) for piece in pieces[::2]]
            lines[at] = "".join(pieces)
            if line.rstrip().endswith("::"):
                literal = indent


def setup(app):
    # numpydoc rewrites the sections of a docstring at priority 500.
    app.connect("autodoc-process-docstring", show_formulas_as_typed, priority=400)
    app.connect("autodoc-process-docstring", escape_plain_text, priority=600)
