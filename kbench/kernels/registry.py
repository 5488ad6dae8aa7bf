"""The table of kernels that have a name.

`make_kernel`, the parameter constraints of estimators (`kbench.kernels.constraints`), random
features and tests look kernels up here. Importing `kbench.kernels` fills the table with the kernels
of `kbench/kernels/functions`.
"""

from typing import TypeVar

from kbench.kernels.kernel import Kernel, parameters

KERNELS: dict[str, type[Kernel]] = {}
"""Kernel classes by their names."""

_Class = TypeVar("_Class", bound=type[Kernel])


def registered(kernel: _Class) -> _Class:
    """Enter a kernel class into the table by its `name`; a class decorator, above `dataclass`.

    Raises TypeError: the name is missing or taken, or the class is no dataclass.
    """
    name = getattr(kernel, "name", "")
    if not name or KERNELS.get(name, kernel) is not kernel:
        raise TypeError(f"{kernel.__name__}.name is {name!r}, should be a name of its own")
    if "__dataclass_fields__" not in vars(kernel):
        raise TypeError(f"{kernel.__name__} should be a frozen dataclass, to compare by its values")
    KERNELS[name] = kernel
    return kernel


def kernel_names(*capabilities: str) -> list[str]:
    """Return the names of the kernels that have all `capabilities`, in alphabetical order.

    capabilities : attributes of `Kernel`, such as "of_rows" or "spectrum"
    """
    return sorted(
        name
        for name, kernel in KERNELS.items()
        if all(getattr(kernel, capability) for capability in capabilities)
    )


def formula(name: str) -> str:
    """Return the first line of a kernel's docstring, its formula."""
    return (KERNELS[name].__doc__ or "").partition("\n")[0].rstrip(".")


def table() -> str:
    """Return a table of all kernels: name, formula, parameters and capabilities."""
    capabilities = ("of_rows", "positive_semidefinite", "exponential", "spectrum")
    lines = []
    for name in sorted(KERNELS):
        abilities = [item for item in capabilities if getattr(KERNELS[name], item)]
        parameter_names = ", ".join(parameters(KERNELS[name])) or "no parameter"
        lines += [
            f"{name:12} {formula(name)}",
            f"{'':12} {parameter_names}; {', '.join(abilities)}",
        ]
    return "\n".join(lines)
