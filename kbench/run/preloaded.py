"""Importing this module imports what workers use; the fork server does so at its start.

The environment variable names estimators, as JSON, whose classes are imported as well.
"""

import gc
import json
import os

from kbench.run.preload import ESTIMATORS, import_common, import_estimators
from kbench.run.worker import thread_pools

# Nothing of what imports create is garbage: looking for some takes a tenth of their time. What is
# there now is left out of the collections of the workers as well.
gc.disable()
import_common()
import_estimators(json.loads(os.environ.pop(ESTIMATORS, "[]")))
thread_pools()
gc.freeze()
gc.enable()
