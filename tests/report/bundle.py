"""What a web page keeps compressed, read as its script reads it."""

import base64
import json
import re
import zlib


def bundle(text):
    """Details and rows of a page, or of the script beside one."""
    inside, beside = r'id="bundle">(?P<a>.+?)</script>', r'^kbenchBundle\("\w{16}", "(?P<b>.+)"\);$'
    found = re.search(f"{inside}|{beside}", text.strip())
    return json.loads(zlib.decompress(base64.b64decode(found["a"] or found["b"])))


def details(text):
    """The HTML of all details of a page."""
    return "".join(one["html"] for one in bundle(text)["details"].values())


def embedded(text):
    """The rows of a page."""
    return rows_of(bundle(text)["rows"])


def rows_of(data):
    """Rows out of their columns."""

    def entry(column, i):
        if isinstance(column, list):
            return column[i]
        return column["all"] if "all" in column else column["of"][column["at"][i]]

    rows = []
    for i in range(data["n"]):
        row = {}
        for name, column in data["columns"].items():
            if name == "command":
                row[name] = " ".join(data["words"][word] for word in column[i])
            elif name in ("phases", "phases_cpu"):
                row[name] = {phase: entry(seconds, i) for phase, seconds in column.items()}
            else:
                row[name] = entry(column, i)
        rows.append(row)
    return rows
