"""Presets are defaults: a value that the user chose wins, whichever the preset."""

import pytest

from kbench.presets import TABLES, resolve


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_presets_of_a_table_set_the_same_parameters(table):
    names = [set(values) for values in table.values()]
    assert all(found == names[0] for found in names)


def test_a_given_value_wins_and_none_is_the_preset_s():
    table = {None: {"a": 1, "b": False}, "paper": {"a": 2, "b": True}}
    assert resolve("paper", table, {"a": None, "other": 5}) == {"a": 2, "b": True}
    assert resolve("paper", table, {"a": 0, "b": False}) == {"a": 0, "b": False}
    assert resolve(None, table, {}) == {"a": 1, "b": False}
    with pytest.raises(ValueError, match=r"'papr', should be one of: None, paper"):
        resolve("papr", table, {})
