"""One line of rows fills a cell, stands for a step or a point: that of the own experiment."""

import pytest
from paper_rows import rbf, runs

from kbench.papers.cells.entries import entry
from kbench.papers.cells.runs import made_by
from kbench.papers.claims.stated import claims
from kbench.papers.figures.figure import figures
from kbench.papers.figures.panels import drawn_panels
from kbench.papers.printed.layout import PAPERS, CellPlace, Choice, Selector, experiments_of, paper
from kbench.papers.studies import compared_steps, systems

TABLES = {table.id: table for name in PAPERS for table in paper(name).tables.values()}


def sheets_of(table, report):
    return [one for one in report.filled if one.table.id == table.id]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_no_second_line_of_the_reference_rows_matches_a_cell(table, reference_report):
    several = {
        f"{row} | {group.column} | {group.measure.label}": one.match.others
        for sheet in sheets_of(table, reference_report)
        for group in sheet.groups
        for row, one in zip(sheet.rows, group.entries, strict=True)
        # Cells without a method are sizes of data, which all methods have alike.
        if one.match
        and one.match.others
        and (table.rows[row] & table.columns[group.column]).methods
    }
    assert several == {}


def test_no_second_line_matches_what_a_claim_selects_itself(reference):
    selected = [one for claim in claims() for one in claim.cells if not one.table.name]
    found = [
        reference.find(machine, one.wanted, one.choices)
        for one in selected
        for machine in reference.machines
    ]
    matches = [match for match in found if match is not None]
    assert len(matches) > len(selected) / 2
    assert [match for match in matches if match.others] == []


def test_a_cell_of_the_reference_rows_is_one_attempt_of_each_run(reference_report):
    """A method that was repeated in a faster hour would be ahead of its rivals."""
    repeated = {
        (line.method, line.problem.dataset)
        for sheet in reference_report.filled
        for group in sheet.groups
        for one in group.entries
        if one.match
        for line in [one.match.line]
        if line.attempts > len(line.ok)
    }
    assert repeated == set()


# Tables of kernel errors at equal memory: the lines of the papers' methods.
EQUAL = {
    "meka_table7": ("Nys", "RNys", "KNys", "ENys", "RKS", "fastfood", "MEKA"),
    "meka_fig1": ("Nystrom", "SVD", "BKA", "MEKA"),
}


@pytest.mark.parametrize("name", EQUAL)
def test_methods_of_a_table_of_kernel_errors_keep_equally_many_numbers(name, reference_report):
    """The papers' methods to two per cent; no other line keeps more."""
    compared = 0
    for sheet in sheets_of(TABLES[name], reference_report):
        for group in sheet.groups:
            if group.measure.label != "numbers kept":
                continue
            entries = zip(sheet.rows, group.entries, strict=True)
            kept = {row: one.value for row, one in entries if one.value is not None}
            for row in EQUAL[name]:
                if row in kept:
                    assert kept[row] >= 0.98 * max(kept.values()), (group.column, row)
                    compared += 1
    if name == "meka_table7":
        assert compared >= 14  # pendigits and ijcnn1


# Numbers for each training row at the ends of MEKA's curves in Figure 7, read off.
MEMORY = {
    ("least memory", "pendigit"): 9.1,
    ("most memory", "pendigit"): 72.8,
    ("least memory", "ijcnn1"): 100,
    ("most memory", "ijcnn1"): 680,
    ("least memory", "covtype"): 34.4,
    ("most memory", "covtype"): 223.8,
}


def test_points_of_figure_7_are_compared_at_the_paper_s_memory(reference_report):
    """Errors fall about as fast as memory grows: a fifth more or fewer numbers is the most."""
    kept = [
        ((row.removesuffix(", Galerkin links"), column), one.value)
        for form in sheets_of(TABLES["meka_fig7"], reference_report)
        for (_, row, column, label), _, one in form.cells()
        if label == "numbers a row" and one.value is not None
    ]
    assert {place for place, _ in kept} == MEMORY.keys()
    assert [place for place, n in kept if abs(n / MEMORY[place] - 1.0) > 0.2] == []


def test_rows_of_the_table_s_experiment_come_before_newer_ones_and_more_seeds():
    own = rbf("svc", 0.80, C=32, gamma=2, experiment="hss_table5,dcsvm_table3")
    own["params"] = own["params"].replace('"tol"', '"cache_size": 200, "tol"')
    others = [
        rbf("svc", 0.99, seed, C=32, gamma=2, experiment=experiment)
        for seed, experiment in ((0, None), (1, "dcsvm_table5"), (2, "dcsvm_scaling"))
    ]
    for row in others:
        row["params"] = row["params"].replace('"tol"', '"cache_size": 4000, "tol"')
    found = runs(own, *others)
    table = TABLES["dcsvm_table3"]
    (machine,) = found.machines
    cell = CellPlace(table, "LIBSVM", "ijcnn1", "accuracy")
    one = entry(cell, found, machine)
    assert (one.value, one.match.others) == (0.80, 0)
    without = runs(*others, {**own, "experiment": None})
    cell = CellPlace(table, "LIBSVM", "ijcnn1", "accuracy")
    one = entry(cell, without, machine)
    assert (one.value, one.match.others) == (pytest.approx(0.99), 1)


@pytest.mark.parametrize("system", systems(), ids=lambda one: one.name)
def test_no_second_run_of_its_experiments_matches_a_step(system, reference):
    """One run stands for a step; another of these experiments with its parameters would be lost."""
    experiments = experiments_of(system.run)
    several = []
    for comparison, settings in compared_steps(system, reference):
        for words, steps in settings:
            for step, chosen in steps.items():
                choice = Choice(comparison.problem.dataset, comparison.problem.variant)
                wanted = system.steps[step] & Selector(
                    params={
                        name: chosen.params[name] for name in system.same if name in chosen.params
                    }
                )
                lines = reference.lines(comparison.machine, wanted, choice)
                own = [line for line in lines if made_by(experiments, line)]
                if system.same and len(own) > 1 and not isinstance(chosen.params.get("C"), list):
                    several.append((comparison.problem, words, step))
    assert several == []


@pytest.mark.parametrize("figure", figures(), ids=lambda one: one.name)
def test_no_two_points_of_a_line_have_one_abscissa(figure, reference):
    for machine in reference.machines:
        for one in drawn_panels(figure, reference, machine):
            for label, points in one.points.items():
                if not (one.panel.lines[label].y.curve or figure.heat):
                    places = [x for x, _, _ in points]
                    assert len(set(places)) == len(places), (one.panel.title, label)
