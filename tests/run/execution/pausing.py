"""DC-SVM that stands still on its way; apart from `naughty`, whose imports every worker makes."""

import os
import time
from pathlib import Path

from kbench.methods import DCSVC
from kbench.trace import Trace


class Pausing(DCSVC):
    """Stands still after three clusters, unless there is a file `go` in the working directory.

    Leaves a file for each process that fits few rows.
    """

    def fit(self, X, y=None, *, trace=None):
        if len(X) <= 300:
            Path(f"warm-{os.getpid()}").touch()

        def look(_, state):
            if len(X) > 300 and state.get("clusters_done") == 3 and not Path("go").exists():
                Path("paused").touch()
                time.sleep(600)

        return super().fit(X, y, trace=Trace(look))
