"""scripts/defaults_table.py writes the tables of every method with its defaults."""

import runpy
from pathlib import Path

from report_rows import make_row

from kbench.run.results.folder import ResultsFolder

SCRIPT = Path(__file__).parents[2] / "scripts" / "defaults_table.py"


def test_the_table_of_defaults_marks_what_is_below_a_linear_machine(tmp_path, capsys):
    script = runpy.run_path(str(SCRIPT))
    folder = ResultsFolder(tmp_path / "results")
    for method, accuracy in (("linear_svc", 0.9), ("good", 0.895), ("bad", 0.88), ("worse", 0.5)):
        folder.write(make_row(method, accuracy, experiment="defaults"))
    folder.write(make_row("other", 0.1, experiment="tuned"))
    document = tmp_path / "tuned.md"
    tables = f"{script['BEGIN']}old\n{script['END']}"
    document.write_text(f"before\n{tables}\n- `bad` is bad.\n\n## More\n`worse`\n")
    script["main"](folder.path, document)
    lines = document.read_text().splitlines()
    assert lines[:1] + lines[-5:] == ["before", "", "- `bad` is bad.", "", "## More", "`worse`"]
    table = [line for line in lines if line.startswith("|")]
    assert table == [
        "| method | digits |",
        "| --- | --- |",
        "| linear_svc | 90.0 |",
        "| bad | 88.0\\* |",
        "| good | 89.5 |",
        "| worse | 50.0\\* |",
    ]
    assert capsys.readouterr().out.startswith("worse: below the linear machine")
