"""The rows of a results folder become the reference rows that come with kbench.

    python scripts/reference.py FOLDER [results/_reference]

Newest rows, their curves and environments, a file each for rows and curves; what stood there is
replaced. Curves of more than 500 points keep every k-th: those of one run that have equally many
still have them at the same places. Rows of a work tree with changes are refused.
"""

import math
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kbench.files import atomic_file
from kbench.run.results import ResultsFolder

MOST_POINTS = 500


def main(source: Path, target: Path) -> None:
    folder = ResultsFolder(source)
    rows = folder.read(reference=False)
    if rows.empty:
        sys.exit(f"{source}: no rows")
    if rows["dirty"].fillna(True).any():
        sys.exit(f"{source}: {int(rows['dirty'].sum())} rows are of a work tree with changes")
    merged = folder.merge().path
    assert merged is not None
    curves = folder.read_curves(reference=False)
    each = curves.groupby(["key", "environment", "threads", "curve", "x_name"])
    length, place = each["x"].transform("size"), each.cumcount()
    step = (length / MOST_POINTS).map(math.ceil)
    curves = curves[(place % step == 0) | (place == length - 1)]
    for name in ("_curves", "_environments"):
        shutil.rmtree(target / name, ignore_errors=True)
        (target / name).mkdir(parents=True)
    shutil.copyfile(merged, target / "reference.parquet")
    schema = pq.read_schema(next((source / "_curves").glob("*.parquet")))
    table = pa.Table.from_pandas(curves, schema=schema, preserve_index=False)
    with atomic_file(target / "_curves" / "curves.parquet") as file:
        pq.write_table(table.replace_schema_metadata(None), file, compression="zstd")
    for environment in sorted(set(rows["environment"])):
        name = f"{environment}.json"
        shutil.copyfile(source / "_environments" / name, target / "_environments" / name)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(f"{len(rows)} rows, {len(table)} points of curves, {size / 2**20:.2f} MiB in {target}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) == 3 else "results/_reference"))
