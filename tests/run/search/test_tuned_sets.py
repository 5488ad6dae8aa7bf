"""The tuned files that come with kbench: every method of a search has one, by one budget."""

import pytest

from kbench.config import options, read_yaml
from kbench.run.planning.tuned_files import tuned_name

SEARCHES = {
    name: plan
    for name, path in options("experiment").items()
    if "tune" in (plan := read_yaml(path)["plan"])
}


def named(entries):
    """Name -> own values, of a plan's list."""
    return {
        name: values
        for entry in entries
        for name, values in (entry.items() if isinstance(entry, dict) else [(entry, {})])
    }


def pairs(plan):
    """(data set, its own keys, method -> the tuned file's name) of each data set of a search."""
    for dataset, keys in named(plan["datasets"]).items():
        yield (
            dataset,
            keys,
            {m: tuned_name(m, dataset, plan["tuned"]) for m in named(plan["methods"])},
        )


@pytest.mark.parametrize("name", SEARCHES)
def test_all_methods_are_tuned_on_a_data_set_or_none(name):
    known = options("tuned")
    counts = [
        sum(file in known for file in files.values()) for _, _, files in pairs(SEARCHES[name])
    ]
    assert set(counts) <= {0, len(named(SEARCHES[name]["methods"]))}
    assert any(counts)


@pytest.mark.parametrize("name", SEARCHES)
def test_every_method_was_given_the_stated_budget(name):
    plan, known = SEARCHES[name], options("tuned")
    budget, grids = plan["tune"], named(plan["methods"])
    for _, keys, files in pairs(plan):
        rows = set()
        for method, file in files.items() if set(files.values()) <= set(known) else ():
            held = read_yaml(known[file])
            said = held.pop("meta")["tuned"]
            assert said["validation"] == budget["validation"]
            assert said["budget"] == f"{budget['runs']} runs"
            assert said["trials"] == budget["runs"]
            assert said["rows"] <= budget["rows"]
            assert said["variant"] == keys.get("variant")
            rows.add((said["rows"], said["data_sha256"]))
            for parameter, value in held.items():
                values = grids[method][parameter]
                assert value in (values if isinstance(values, list) else [values])
        assert len(rows) <= 1


@pytest.mark.parametrize("name", SEARCHES)
def test_as_many_settings_are_offered_as_are_tried(name):
    for grid in named(SEARCHES[name]["methods"]).values():
        settings = 1
        for values in grid.values():
            settings *= len(values) if isinstance(values, list) else 1
        assert settings == SEARCHES[name]["tune"]["runs"]
