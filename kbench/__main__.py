"""`python -m kbench` is `kbench`."""

import sys
from pathlib import Path

from kbench.cli import main

# `-m` puts the working directory on `sys.path`. Modules there would replace those of packages, so
# the directory is removed unless it is kbench's own source tree.
if not sys.flags.safe_path and Path(sys.path[0]) != Path(__file__).parents[1]:
    del sys.path[0]

sys.exit(main())
