"""Fetch data sets by scikit-learn's fetchers or from OpenML, and store them as Parquet tables.

In the URL of a raw file, `sklearn:covtype` means `sklearn.datasets.fetch_covtype`, and `openml:554`
means the data set of that number on https://www.openml.org. The fetched data become a table whose
last column is the target, and this table is the raw file. scikit-learn's cache
($SCIKIT_LEARN_DATA, else ~/scikit_learn_data) is searched first, and downloads go to
`_scikit_learn` in the folder of the raw files.
"""

import os
import warnings
from pathlib import Path
from typing import Any

from kbench.errors import ConfigError, DataError, quoted
from kbench.mistyped import nearest

FETCHERS = ("california_housing", "covtype")


def write(url: str, path: Path, download_folder: Path) -> None:
    """Fetch a data set and write it as the Parquet file `path`.

    download_folder : Folder for the downloads of scikit-learn

    Raises ConfigError: the fetcher is not in `FETCHERS`, or `openml:` precedes no number.
    Raises DataError: the data set is not a table of numbers and categories with one target.
    Raises OSError: the data are not in a cache and cannot be downloaded.
    """
    caches = [
        Path(os.environ.get("SCIKIT_LEARN_DATA") or "~/scikit_learn_data").expanduser(),
        download_folder,
    ]
    scheme, _, name = url.partition(":")
    fetch = _from_scikit_learn if scheme == "sklearn" else _from_openml
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about retries repeat the final error
        bunch = fetch(url, name, [cache for cache in caches if cache.is_dir()], download_folder)
    targets = [str(target) for target in bunch.target_names]
    frame = bunch.frame
    if len(targets) != 1 or targets[0] not in frame:
        raise DataError(f"{url}: {len(targets)} targets ({', '.join(targets)}), should be one")
    frame = frame[[*(c for c in frame.columns if c != targets[0]), targets[0]]]
    try:
        frame.to_parquet(path, index=False)
    except (ValueError, TypeError, NotImplementedError) as error:
        path.unlink(missing_ok=True)
        reason = quoted(error)
        raise DataError(f"{url}: not a table of numbers and categories ({reason})") from None


def _from_scikit_learn(url: str, name: str, caches: list[Path], download_folder: Path) -> Any:
    """The data from the first cache that has them; else they are downloaded."""
    from sklearn import datasets

    if name not in FETCHERS:
        hint = nearest(name, FETCHERS) or f"; there are {', '.join(FETCHERS)}"
        raise ConfigError(f"{url}: kbench knows no fetcher of scikit-learn by this name{hint}")
    fetcher = getattr(datasets, f"fetch_{name}")
    for cache in caches:
        try:
            return _one_target(fetcher(data_home=cache, as_frame=True, download_if_missing=False))
        except OSError:  # the data are not in this cache
            continue
    # One retry after 0.1 s, also in `_from_openml`, so that errors come soon. Set by hand.
    return _one_target(fetcher(data_home=download_folder, as_frame=True, n_retries=1, delay=0.1))


def _one_target(bunch: Any) -> Any:
    """The result of a fetcher, in which `target_names` are the columns that are not features."""
    columns = [c for c in bunch.frame.columns if c not in bunch.feature_names]
    bunch.target_names = columns
    return bunch


def _from_openml(url: str, name: str, caches: list[Path], download_folder: Path) -> Any:
    from sklearn.datasets import fetch_openml

    if not name.isdecimal():
        raise ConfigError(f"{url}: should be openml:NUMBER, the number of a data set on OpenML")
    # fetch_openml downloads data that its cache lacks, so only one cache can be tried.
    cache = next((c for c in caches if (c / "openml").is_dir()), download_folder)
    try:
        return fetch_openml(
            data_id=int(name), data_home=cache, as_frame=True, n_retries=1, delay=0.1
        )
    except ValueError as error:  # raised for errors of OpenML, such as an unknown number
        raise OSError(quoted(error)) from None
