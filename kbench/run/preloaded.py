"""Importing this module imports what workers use; the fork server does so at its start.

The environment variable names estimators, as JSON, whose classes are imported as well.
"""

import json
import os

from kbench.run.preload import ESTIMATORS, import_common, import_estimators

import_common()
import_estimators(json.loads(os.environ.pop(ESTIMATORS, "[]")))
