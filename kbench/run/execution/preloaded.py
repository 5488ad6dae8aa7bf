"""Importing this module imports what workers use; the fork server does so at its start.

The environment variable names estimators, as JSON, whose classes are imported as well.
"""

import gc
import json
import os

from kbench.run.execution.preload import ESTIMATORS, import_common, import_estimators
from kbench.run.execution.worker import thread_pools

# Imports create objects that stay, so garbage collection is off while they run: it would take a
# tenth of their time. `gc.freeze` then leaves these objects out of the workers' collections.
gc.disable()
import_common()
import_estimators(json.loads(os.environ.pop(ESTIMATORS, "[]")))
thread_pools()
gc.freeze()
gc.enable()
