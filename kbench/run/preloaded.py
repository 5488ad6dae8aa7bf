"""Importing this module imports what every worker uses; the fork server does so at its start."""

from kbench.run.preload import import_common

import_common()
