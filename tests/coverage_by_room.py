"""`make coverage`: the share of lines and branches that the tests ran, by room, as coverage.py kept it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from coverage import Coverage


def main() -> None:
    kept = Coverage(messages=False)
    kept.load()
    with TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        kept.json_report(outfile=str(report))
        files = json.loads(report.read_text())["files"]
    ran, there = Counter[str](), Counter[str]()
    for file, found in files.items():
        package, room, *inside = Path(file.partition("src/")[2]).parts
        totals = found["summary"]
        for name in (f"{package}/{room if inside else '*.py'}", "all"):
            ran[name] += totals["covered_lines"] + totals["covered_branches"]
            there[name] += totals["num_statements"] + totals["num_branches"]
    print("   share  of all  room")
    for name in sorted(there):
        print(f"{ran[name] / max(there[name], 1):8.1%}  {there[name]:6,}  {name}")


if __name__ == "__main__":
    main()
