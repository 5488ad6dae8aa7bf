"""Molecules as sorted Coulomb matrices, and their reader from a tar archive of xyz geometries.

Source: Rupp, Tkatchenko, Mueller, von Lilienfeld, Phys. Rev. Lett. 108, 058301 (2012). A molecule
has the matrix C_ii = Z_i^2.4 / 2 and C_ij = Z_i Z_j / |R_i - R_j| with distances in Bohr, padded
with zeros to the size of the largest molecule. Rows and columns are sorted by the norm of the rows,
largest first. The features are the upper triangle with the diagonal, 276 numbers for QM7.
"""

import io
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.formats import FLOAT32_OVERFLOW, PartRows, finite_number, parsing, printable
from kbench.data.sources.content import read as read_bytes
from kbench.errors import DataError

ATOMS = 23
"""Number of atoms of the largest molecule in QM7."""

BOHR = 0.529177210903
"""Bohr radius in Angstrom, the unit of xyz files (CODATA 2018)."""

CHARGES = {"H": 1, "C": 6, "N": 7, "O": 8, "F": 9, "P": 15, "S": 16, "Cl": 17}
"""Nuclear charges of the elements that a molecule may contain."""


def coulomb_matrix(charges: np.ndarray, positions: np.ndarray, size: int = ATOMS) -> np.ndarray:
    """Coulomb matrix of a molecule, padded with zeros.

    charges : ndarray, shape (atoms,)
    positions : ndarray, shape (atoms, 3). In Angstrom.

    Returns ndarray, shape (size, size).
    """
    distance = np.linalg.norm(positions[:, None] - positions[None], axis=2) / BOHR
    np.fill_diagonal(distance, 1.0)
    C = np.outer(charges, charges) / distance
    np.fill_diagonal(C, 0.5 * charges**2.4)
    padded = np.zeros((size, size))
    padded[: charges.size, : charges.size] = C
    return padded


def sorted_triangle(C: np.ndarray) -> np.ndarray:
    """Sort rows and columns of symmetric matrices by norm, and return the upper triangles.

    C : ndarray, shape (n, k, k)

    Returns ndarray, shape (n, k (k + 1) / 2). The largest norm comes first; rows of equal norm
    stay in their order.
    """
    norms = np.linalg.norm(C, axis=2)
    order = np.argsort(-norms, axis=1, kind="stable")
    ordered = np.take_along_axis(C, order[:, :, None], axis=1)
    ordered = np.take_along_axis(ordered, order[:, None, :], axis=2)
    upper = np.triu_indices(C.shape[1])
    return ordered[:, upper[0], upper[1]]


def read(
    parts: Mapping[str, list[Path]], source: Mapping[str, Any], task: str
) -> dict[str, PartRows]:
    """Rows of each part, in the order of the archive's .txt table (file name, energy, ...)."""
    return {part: _molecules(*paths) for part, paths in parts.items()}


def _molecules(path: Path) -> PartRows:
    with (
        parsing(path, "a tar archive of text files"),
        tarfile.open(fileobj=io.BytesIO(read_bytes(path))) as archive,
    ):
        texts = {m.name: _text(archive, m) for m in archive if m.name.endswith((".xyz", ".txt"))}
    tables = [name for name in texts if name.endswith(".txt")]
    if len(tables) != 1:
        raise DataError(f"{path}: {len(tables)} .txt files in it, should be one table of energies")
    locations, energies, matrices = [], [], []
    for lineno, line in enumerate(texts[tables[0]].splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}:{printable(tables[0])}:{lineno}"
        name, energy = _name_and_energy(line, where)
        if name not in texts:
            raise DataError(f"{where}: {printable(name)} is not in the archive")
        locations.append(where)
        energies.append(energy)
        charges, positions = _geometry(texts[name], f"{path}:{printable(name)}")
        with np.errstate(all="ignore"):  # infinite values are refused below
            matrix = coulomb_matrix(charges, positions)
        if not np.all(np.abs(matrix) < FLOAT32_OVERFLOW):
            raise DataError(f"{path}:{printable(name)}: two atoms at the same place, or almost")
        matrices.append(matrix)
    if not matrices:
        raise DataError(f"{path}:{printable(tables[0])}: no rows")
    X = sorted_triangle(np.array(matrices))
    return PartRows(X, np.array(energies), None, locations.__getitem__)


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    stream = archive.extractfile(member)
    return stream.read().decode() if stream is not None else ""


def _name_and_energy(line: str, where: str) -> tuple[str, float]:
    fields = line.split()
    energy = finite_number(fields[1]) if len(fields) > 1 else np.nan
    if not np.isfinite(energy):
        raise DataError(f"{where}: {printable(line)!r}, should be a file name and an energy")
    return fields[0], energy


def _geometry(text: str, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Nuclear charges (atoms,) and positions (atoms, 3) in Angstrom of an xyz file.

    text : First line the number of atoms, second a comment, then an element and three coordinates
        on each line; lines after the last atom are ignored
    where : The file, as errors name it
    """
    lines = text.splitlines()
    count = lines[0].strip() if lines else ""
    if not re.fullmatch("[0-9]{1,3}", count) or not 1 <= int(count) <= ATOMS:
        shown = printable(count)
        raise DataError(f"{where}:1: {shown!r}, should be a number of atoms up to {ATOMS}")
    atoms = lines[2 : 2 + int(count)]
    if len(atoms) < int(count):
        raise DataError(f"{where}:{len(lines)}: ends after {len(atoms)} of {count} atoms")
    charges, positions = [], []
    for lineno, line in enumerate(atoms, start=3):
        fields = line.split()
        position = [finite_number(number_text) for number_text in fields[1:4]]
        if len(position) != 3 or fields[0] not in CHARGES or not np.isfinite(position).all():
            raise DataError(
                f"{where}:{lineno}: {printable(line)!r}, should be an element of "
                f"{', '.join(CHARGES)} and three coordinates"
            )
        charges.append(CHARGES[fields[0]])
        positions.append(position)
    return np.array(charges, dtype=float), np.array(positions)
