"""Machines of clusters in one file: written one after the other, read by memory map when needed.

The file is a sequence of records, one for each cluster, in the order in which they were trained:

    magic         8 bytes, b"kbenchM1"
    cluster       int64
    length        int64, bytes of the text
    length        int64, bytes of the arrays
    digest        sha256 of the text and the arrays
    text          JSON: the tree of the model (`kbench.prediction.encoding`) and, for each array,
                  [dtype, shape, order "C" or "F", offset in bytes]
    arrays        one after the other, each from a multiple of 64 bytes on

Records begin at multiples of 64 bytes. A process that is killed while it writes leaves an
incomplete last record, which the next writer recognises by its length and digest and cuts off, so
the file is the checkpoint of an interrupted fit. Like a model file, the file is not trusted: the
encoding of models builds a model, which is checked before compiled code reads it.
"""

import hashlib
import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.errors import KbenchError, ModelError
from kbench.prediction.encoding import decode, encode
from kbench.prediction.expansion import KernelExpansion
from kbench.prediction.flops import expansion_flops
from kbench.prediction.local import LocalMachines
from kbench.stored import check_arrays, require

_HEADER = struct.Struct("<8sqqq32s")  # 64 bytes
_MAGIC = b"kbenchM1"
# Texts and the bytes of each array are padded to a multiple of this number of bytes, a cache line.
_ALIGNMENT = 64
# Bytes of models that stay decoded. Blocks of rows visit the models in order, so the model used
# last is needed last: the first models that fit are kept and never replaced. Set by hand.
DECODED_BYTES = 256 << 20


class MachineWriter:
    """Appends the models of clusters to a file, and knows which clusters the file has.

    Parameters
    ----------
    path : Created if it does not exist; an incomplete last record is cut off

    Attributes
    ----------
    offsets : dict of int to int. Cluster -> byte offset of its record in the file.

    Raises
    ------
    KbenchError
        The file cannot be written. The file then ends with the last complete record.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offsets: dict[int, int] = {}
        self._end = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+b", buffering=0)  # noqa: SIM115
            for cluster, offset, length in _complete_records(path):
                self.offsets[cluster] = offset
                self._end = offset + length
            self._file.truncate(self._end)
        except OSError as error:
            raise KbenchError(f"cannot write {path}: {error.strerror or error}") from error

    def append(self, cluster: int, record: Any) -> None:
        """Write the record of a cluster: anything that a model file may hold. O(bytes)."""
        tree, arrays = encode(record)
        array_headers, blocks, offset = {}, [], 0
        for name, array in arrays.items():
            order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
            block = array.tobytes(order)  # type: ignore[arg-type]
            array_headers[name] = [array.dtype.str, list(array.shape), order, offset]
            blocks.append(block + bytes(-len(block) % _ALIGNMENT))
            offset += len(blocks[-1])
        text = json.dumps({"tree": tree, "arrays": array_headers}, allow_nan=False).encode()
        text += b" " * (-len(text) % _ALIGNMENT)
        payload = b"".join(blocks)
        digest = hashlib.sha256(text + payload).digest()
        header = _HEADER.pack(_MAGIC, cluster, len(text), len(payload), digest)
        record_bytes = header + text + payload
        try:
            n_written = 0
            while n_written < len(record_bytes):
                n_written += self._file.write(record_bytes[n_written:])
        except OSError as error:
            self._file.truncate(self._end)
            raise KbenchError(f"cannot write {self.path}: {error.strerror or error}") from error
        self.offsets[cluster] = self._end
        self._end += len(record_bytes)

    def written(self) -> Iterator[tuple[int, Any]]:
        """Yield each cluster whose record is in the file, and the record."""
        if self.offsets:
            clusters = sorted(self.offsets)
            data = np.memmap(self.path, np.uint8, "r")
            for cluster in clusters:
                yield cluster, _record(data, self.offsets[cluster], cluster)

    def packed(self) -> "PackedRecords":
        """The records of the clusters 0 ... k - 1; all must have been written."""
        offsets = [self.offsets[cluster] for cluster in range(len(self.offsets))]
        return PackedRecords(np.memmap(self.path, np.uint8, "r"), np.array(offsets, np.int64))

    def __enter__(self) -> "MachineWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class PackedRecords:
    """The records of all clusters, on a memory map or in memory.

    Parameters
    ----------
    data : (bytes,) uint8
    offsets : (k,) int64. Byte offset of the record of each cluster in `data`.
    """

    def __init__(self, data: np.ndarray, offsets: np.ndarray) -> None:
        self.data, self.offsets = data, offsets

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + self.offsets.nbytes

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, cluster: int) -> Any:
        """The record of a cluster, built anew; its arrays are copies. O(bytes).

        Raises ModelError: the bytes are not a record.
        """
        return _record(self.data, int(self.offsets[cluster]), cluster)

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        data = self.data
        require(isinstance(data, np.ndarray) and data.dtype == np.uint8, "data should be bytes")
        require(data.ndim == 1, "data should have one dimension")
        check_arrays(self, offsets="i8 k")


def _record(data: np.ndarray, offset: int, cluster: int) -> Any:
    magic, stored_cluster, n_text, n_payload, _ = _HEADER.unpack(_bytes(data, offset, _HEADER.size))
    if magic != _MAGIC or stored_cluster != cluster or min(n_text, n_payload) < 0:
        raise ModelError(f"the record of cluster {cluster} is damaged")
    begin = offset + _HEADER.size
    payload = data[begin + n_text : begin + n_text + n_payload]
    try:
        content = json.loads(_bytes(data, begin, n_text))
        arrays = {name: _array(payload, *header) for name, header in content["arrays"].items()}
        return decode(content["tree"], arrays)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(f"the record of cluster {cluster} is damaged ({error})") from None


def _bytes(data: np.ndarray, offset: int, length: int) -> bytes:
    if not 0 <= offset <= offset + length <= len(data):
        raise ModelError("a record of a cluster reaches beyond the end of its file")
    return data[offset : offset + length].tobytes()


def _array(payload: np.ndarray, code: str, shape: list[int], order: Any, offset: int) -> np.ndarray:
    """Copy an array from the payload: compiled code then meets the types of just fitted arrays."""
    dtype = np.dtype(code)
    if dtype.kind not in "biufcU":
        raise ModelError(f"an array of {dtype}, should be of numbers or texts")
    size = math.prod(shape)
    if min([offset, *shape]) < 0:
        raise ModelError(f"an array of shape {shape} at {offset}")
    numbers = np.frombuffer(_bytes(payload, offset, size * dtype.itemsize), dtype).copy()
    return numbers.reshape(shape, order=order)


class PackedMachines(Mapping[int, KernelExpansion]):
    """The kernel expansions of k clusters, decoded when they are used.

    Parameters
    ----------
    records : Each record is a mapping with the entry "machine"
    n_centres : (k,) int64. Centres of each machine.
    """

    def __init__(self, records: PackedRecords, n_centres: np.ndarray) -> None:
        self.records, self.n_centres = records, n_centres

    @property
    def nbytes(self) -> int:
        return self.records.nbytes + self.n_centres.nbytes

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __getstate__(self) -> dict[str, Any]:
        return {"records": self.records, "n_centres": self.n_centres}

    def __getitem__(self, cluster: int) -> KernelExpansion:
        decoded: dict[int, Any] = self.__dict__.setdefault("_decoded", {})
        machine = decoded.get(cluster)
        if machine is None:
            record = self.records[cluster]
            machine = record.get("machine") if isinstance(record, dict) else None
            if not isinstance(machine, KernelExpansion):
                raise ModelError(f"the record of cluster {cluster} has no model")
            held_bytes = self.__dict__.setdefault("_held_bytes", 0)
            if held_bytes + machine.nbytes <= DECODED_BYTES:
                decoded[cluster] = machine
                self._held_bytes = held_bytes + machine.nbytes
        return machine

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        require(isinstance(self.records, PackedRecords), "records should be PackedRecords")
        k = check_arrays(self, n_centres="i8 k")["k"]
        require(k == len(self.records), f"there are {len(self.records)} records")


class PackedSum:
    """The sum of all models, at every row."""

    def __init__(self, machines: PackedMachines, n_outputs: int) -> None:
        self.machines, self.n_outputs = machines, n_outputs

    @property
    def nbytes(self) -> int:
        return self.machines.nbytes

    def flops(self, n_features: int) -> float:
        n_centres = int(self.machines.n_centres.sum())
        return expansion_flops(n_centres, self.n_outputs, n_features)

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d); (u, m) float64. Reads every model once."""
        outputs = np.zeros((X.shape[0], self.n_outputs))
        for machine in self.machines.values():
            outputs += machine(X)
        return outputs


class PackedLocalMachines(LocalMachines):
    """Early prediction with models that stay in a file; `machines` is a `PackedMachines`."""

    machines: Any

    @property
    def nbytes(self) -> int:
        """Bytes of the tree of clusters and of all models."""
        nbytes: int = self.assign.__self__.nbytes + self.machines.nbytes  # type: ignore[attr-defined]
        return nbytes

    def flops(self, n_features: int) -> float:
        mean = float(np.mean(self.machines.n_centres))
        return self.n_products + mean * expansion_flops(1, self.n_outputs, n_features)


def _complete_records(path: Path) -> Iterator[tuple[int, int, int]]:
    """Yield (cluster, offset, length) of the records of a file before the first damaged one."""
    size = path.stat().st_size
    data = np.memmap(path, np.uint8, "r") if size else np.empty(0, np.uint8)
    offset = 0
    while offset + _HEADER.size <= size:
        header = data[offset : offset + _HEADER.size].tobytes()
        magic, cluster, n_text, n_payload, digest = _HEADER.unpack(header)
        length = _HEADER.size + n_text + n_payload
        if magic != _MAGIC or min(n_text, n_payload) < 0 or offset + length > size:
            return
        if hashlib.sha256(data[offset + _HEADER.size : offset + length].data).digest() != digest:
            return
        yield cluster, offset, length
        offset += length
