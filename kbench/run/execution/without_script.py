"""Importing this module in the fork server spares its children the script of the command.

multiprocessing runs that script again in each child, as its main module, for objects that are
pickled by reference to it. A guard is given none, and the script of a Dask or Ray worker imports
its whole library: a tenth of a second and more for every run. multiprocessing leaves the script out
where the main module of the server is the command's already, by its name or its file.
"""

import importlib.machinery
import json
import os
import sys
from multiprocessing import spawn

# The environment variable that names the main module of the command.
_MAIN = "KBENCH_MAIN_MODULE"


def main_module() -> dict[str, str]:
    """The environment of a fork server whose children leave out this process's main module."""
    told = spawn.get_preparation_data("kbench")
    name, file = told.get("init_main_from_name"), told.get("init_main_from_path")
    return {_MAIN: json.dumps({"name": name, "file": file})}


def _be_main(name: str | None, file: str | None) -> None:
    main = sys.modules["__main__"]
    if name is not None:
        main.__spec__ = importlib.machinery.ModuleSpec(name, None)
    elif file is not None:
        main.__file__ = file


if _MAIN in os.environ:
    _be_main(**json.loads(os.environ.pop(_MAIN)))
