"""Encoding of objects as JSON trees and arrays, and decoding: the content of a model file.

Numbers, strings, booleans, None and lists are written as themselves; everything else is a mapping
whose first key states its kind:

    {"float": "nan" | "inf" | "-inf"}      {"tuple": [...]}      {"dict": [[key, value], ...]}
    {"array": name}   {"scalar": name}     an array beside the tree; an array of 0 dimensions
    {"texts": name}                        an array of str objects, as pandas has them
    {"dtype": "<f4"}  {"type": "<f4"}      a NumPy dtype, or scalar type
    {"sparse": [class, shape, data, indices, indptr]}
    {"slice": [start, stop, step]}
    {"object": class, "state": {attribute: value}}
    {"again": k}                           the k-th "object" of the tree, counted from 0
    {"named_tuple": class, "items": [...]}
    {"method": [object, name]}             a method of an object of the tree
    {"skops": name}                        an object of scikit-learn as bytes written by skops

A class is written `module:Class`; those that `kbench.prediction.storable` allows are rebuilt
attribute by attribute, and then checked by `kbench.prediction.stored_checks`. Nothing is unpickled,
and no code runs that the file could choose.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.errors import ModelError
from kbench.prediction.skops_bytes import from_skops, to_skops
from kbench.prediction.storable import class_at, is_method, may_build
from kbench.prediction.stored_checks import check_object

_SPARSE_CLASSES: dict[str, type] = {
    cls.__name__: cls for cls in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix)
}
_DTYPE_KINDS = "biufcU"  # kinds of dtypes that are allowed: no objects, no structures
_MAX_DEPTH = 100  # guard: deepest nesting of a tree, well below Python's recursion limit
# Messages quote at most 80 characters of an attribute's name and 60 of a tree. Set by hand.


def encode(value: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """Encode `value` as a tree and its arrays.

    Returns
    -------
    tree : a value that `json.dumps` accepts
    arrays : dict of str to ndarray
        By their names in the tree; an array that occurs twice is stored once.

    Raises
    ------
    ModelError
        Names the attribute whose value the format cannot hold (a function, a random generator, an
        object of another package).
    """
    encoder = _Encoder()
    tree = encoder.node(value, "model", 0)
    return tree, encoder.arrays


def decode(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Rebuild the value that `encode` encoded; arrays keep their bits, dtype and memory order.

    Raises ModelError: the tree is not one that `encode` makes, names a class that may not be built,
    or holds objects whose attributes contradict one another.
    """
    decoder = _Decoder(arrays)
    value = decoder.node(tree, 0)
    # The tree has containers before their content; the content is checked first.
    for instance in reversed(decoder.objects):
        check_object(instance)
    return value


class _Encoder:
    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._names: dict[int, str] = {}
        self._objects: dict[int, int] = {}
        self._enclosing: set[int] = set()  # ids of the containers around the current value

    def node(self, value: Any, where: str, depth: int) -> Any:
        """The tree of a value; `where` is the attribute that errors name, `depth` its nesting."""
        if depth > _MAX_DEPTH:
            raise ModelError(f"{where[:80]}...: nested more than {_MAX_DEPTH} deep")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) in (np.ndarray, np.memmap):
            if value.dtype == object and all(type(text) is str for text in value.flat):
                texts = value.astype(str)
                if np.array_equal(texts.astype(object), value):  # no NUL at the end of a text
                    return {"texts": self._array(texts, where)}
            return {"array": self._array(value, where)}
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value), where)}
        if isinstance(value, np.dtype):
            return {"dtype": _plain_dtype(value, where).str}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"type": _plain_dtype(np.dtype(value), where).str}
        if type(value) in (list, tuple, dict):
            return self._container(value, where, depth)
        if type(value) is slice:
            bounds = (value.start, value.stop, value.step)
            return {"slice": self._items(bounds, where, depth)}
        if type(value) in _SPARSE_CLASSES.values():
            arrays = (value.data, value.indices, value.indptr)
            names = [self._array(array, where) for array in arrays]
            return {"sparse": [type(value).__name__, [int(k) for k in value.shape], *names]}
        return self._instance(value, where, depth)

    def _container(self, value: Any, where: str, depth: int) -> Any:
        if id(value) in self._enclosing:
            raise ModelError(f"{where[:80]}: a {type(value).__name__} that holds itself")
        self._enclosing.add(id(value))
        if type(value) is dict:
            tree: Any = {"dict": [self._entry(*entry, where, depth) for entry in value.items()]}
        else:
            items = self._items(value, where, depth)
            tree = items if type(value) is list else {"tuple": items}
        self._enclosing.discard(id(value))
        return tree

    def _items(self, values: Iterable[Any], where: str, depth: int) -> list[Any]:
        return [self.node(v, f"{where}[{k}]", depth + 1) for k, v in enumerate(values)]

    def _entry(self, key: Any, value: Any, where: str, depth: int) -> list[Any]:
        name = f"{where}.{key}" if isinstance(key, str) else f"{where}[{key!r}]"
        return [self.node(key, where, depth + 1), self.node(value, name, depth + 1)]

    def _array(self, array: np.ndarray, where: str) -> str:
        _plain_dtype(array.dtype, where)
        if id(array) not in self._names:
            name = f"a{len(self.arrays)}"
            self._names[id(array)] = name
            self.arrays[name] = array
        return self._names[id(array)]

    def _instance(self, value: Any, where: str, depth: int) -> Any:
        owner = getattr(value, "__self__", None)
        name = getattr(value, "__name__", "")
        if callable(value) and owner is not None and is_method(owner, name):
            return {"method": [self.node(owner, where, depth + 1), name]}
        cls = type(value)
        class_name = f"{cls.__module__}:{cls.__qualname__}"
        if not may_build(class_name):
            if cls.__module__.partition(".")[0] == "sklearn":
                return {"skops": self._array(to_skops(value, where), where)}
            raise ModelError(
                f"{where} is {_description(value)}, which the open model format does not hold"
            )
        if isinstance(value, tuple):
            return {"named_tuple": class_name, "items": self._items(value, where, depth)}
        if not hasattr(value, "__dict__") or isinstance(value, type):
            raise ModelError(f"{where} is {_description(value)}, which has no attributes to store")
        if id(value) in self._objects:
            return {"again": self._objects[id(value)]}
        self._objects[id(value)] = len(self._objects)
        attributes = value.__getstate__() or {}
        if not isinstance(attributes, dict):
            raise ModelError(f"{where} is {_description(value)}, which has attributes in slots")
        state = {
            key: self.node(entry, f"{where}.{key}", depth + 1) for key, entry in attributes.items()
        }
        return {"object": class_name, "state": state}


class _Decoder:
    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays
        self.objects: list[Any] = []

    def node(self, tree: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ModelError("nested too deeply")
        if isinstance(tree, list):
            return [self.node(item, depth + 1) for item in tree]
        if not isinstance(tree, dict):
            return tree
        kind = next(iter(tree), None)
        build = _BUILDERS.get(kind) if isinstance(kind, str) else None
        if build is None or len(tree) != (2 if kind in ("object", "named_tuple") else 1):
            raise ModelError(f"not a value of the format: {str(tree)[:60]}")
        try:
            return build(self, tree, depth + 1)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ModelError(f"not a {kind} of the format: {str(tree)[:60]} ({error})") from None

    def array(self, name: Any) -> np.ndarray:
        if not isinstance(name, str) or name not in self._arrays:
            raise ModelError(f"there is no array {name!r}")
        return self._arrays[name]

    def _float(self, tree: Any, depth: int) -> float:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[tree["float"]]

    def _tuple(self, tree: Any, depth: int) -> tuple:
        return tuple(self._list(tree["tuple"], depth))

    def _dict(self, tree: Any, depth: int) -> dict:
        return dict(self._list(tree["dict"], depth))

    def _array(self, tree: Any, depth: int) -> np.ndarray:
        return self.array(tree["array"])

    def _texts(self, tree: Any, depth: int) -> np.ndarray:
        array = self.array(tree["texts"])
        if array.dtype.kind != "U":
            raise ModelError(f"texts are an array of {array.dtype}, should be strings")
        return array.astype(object)

    def _scalar(self, tree: Any, depth: int) -> Any:
        array = self.array(tree["scalar"])
        if array.ndim:
            raise ModelError(f"a scalar has shape {array.shape}, should have no dimensions")
        return array[()]

    def _dtype(self, tree: Any, depth: int) -> np.dtype:
        return _plain_dtype(np.dtype(str(tree["dtype"])), "dtype")

    def _type(self, tree: Any, depth: int) -> type:
        return _plain_dtype(np.dtype(str(tree["type"])), "type").type

    def _sparse(self, tree: Any, depth: int) -> Any:
        name, shape, data, indices, indptr = tree["sparse"]
        arrays = tuple(self.array(array) for array in (data, indices, indptr))
        matrix = _SPARSE_CLASSES[name](arrays, shape=tuple(shape))
        matrix.check_format(full_check=True)  # refuses indices out of range
        return matrix

    def _object(self, tree: Any, depth: int) -> Any:
        cls = class_at(tree["object"])
        instance: Any = object.__new__(cls)
        self.objects.append(instance)
        for name, entry in tree["state"].items():
            if name.startswith("__") or not name.isidentifier():
                raise ModelError(f"{name!r} is not an attribute of a model")
            instance.__dict__[name] = self.node(entry, depth)
        return instance

    def _again(self, tree: Any, depth: int) -> Any:
        index = tree["again"]
        if type(index) is not int or not 0 <= index < len(self.objects):
            raise ModelError(f"there is no object {str(index)[:20]}")
        return self.objects[index]

    def _slice(self, tree: Any, depth: int) -> slice:
        start, stop, step = self._list(tree["slice"], depth)
        return slice(start, stop, step)

    def _named_tuple(self, tree: Any, depth: int) -> tuple:
        cls = class_at(tree["named_tuple"])
        items = self._list(tree["items"], depth)
        if not issubclass(cls, tuple) or len(items) != len(getattr(cls, "_fields", ())):
            raise ModelError(f"{tree['named_tuple']} is no named tuple of {len(items)} fields")
        return tuple.__new__(cls, items)

    def _method(self, tree: Any, depth: int) -> Callable[..., Any]:
        owner, name = tree["method"]
        owner = self.node(owner, depth)
        if not isinstance(name, str) or not is_method(owner, name):
            raise ModelError(f"{name!r} is not a public method of {type(owner).__name__}")
        bound: Callable[..., Any] = getattr(owner, name)
        return bound

    def _skops(self, tree: Any, depth: int) -> Any:
        return from_skops(self.array(tree["skops"]))

    def _list(self, items: Any, depth: int) -> list[Any]:
        if not isinstance(items, list):
            raise ModelError(f"not a list: {str(items)[:60]}")
        return [self.node(item, depth) for item in items]


_BUILDERS: dict[str, Callable[[_Decoder, Any, int], Any]] = {
    "float": _Decoder._float,
    "tuple": _Decoder._tuple,
    "dict": _Decoder._dict,
    "array": _Decoder._array,
    "scalar": _Decoder._scalar,
    "texts": _Decoder._texts,
    "dtype": _Decoder._dtype,
    "type": _Decoder._type,
    "sparse": _Decoder._sparse,
    "slice": _Decoder._slice,
    "object": _Decoder._object,
    "again": _Decoder._again,
    "named_tuple": _Decoder._named_tuple,
    "method": _Decoder._method,
    "skops": _Decoder._skops,
}


def _plain_dtype(dtype: np.dtype, where: str) -> np.dtype:
    if dtype.kind not in _DTYPE_KINDS or dtype.hasobject:
        raise ModelError(f"{where} is an array of {dtype}, should be of numbers or texts")
    return dtype


def _description(value: Any) -> str:
    name = getattr(value, "__name__", None)
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return f"the {kind} {name!r}" if name else f"of class {kind}"
