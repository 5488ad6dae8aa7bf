"""The kernel functions, one in each file; importing this package enters them into the table.

A new kernel is one new file (docs/architecture.md, "Where to change what"). What kernels share is
in `kbench.kernels`: base classes in `distances` and `inner_products`, loops in `tiles`, the table
in `registry`.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
