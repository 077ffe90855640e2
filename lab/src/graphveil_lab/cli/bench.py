"""Commands on experiments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from graphveil.cli import options
from graphveil.cli.hyperparameters import import_methods
from graphveil.cli.output import echo, print_json, print_rows, require_files

app = options.App(no_args_is_help=True, help="Experiments: run a spec (resumable), show its table.")

SpecName = Annotated[str, Argument(metavar="SPEC", help="A spec file, or a name from `bench list`.")]
RecordFolder = Annotated[Path, Option("--out", help="Folder of the records; what is interrupted goes on there.")]
KeptFiles = Annotated[
    list[Path], Argument(metavar="RESULTS...", help="Files written by `bench run --results`.", dir_okay=False)
]


@contextmanager
def resumable(out: Path) -> Iterator[None]:
    """Work that keeps each record in `out` when it is made; an interrupt prints how to resume."""
    from graphveil.runtime.folders import require_folder

    require_folder(out, out)
    try:
        yield
    except KeyboardInterrupt:
        echo(f"stopped; what is finished is kept in {out}: the same command goes on from there", err=True)
        raise typer.Exit(130) from None


@app.command("run")
@options.grouped
def bench_run(
    specs: Annotated[
        list[str], Argument(metavar="SPEC...", help="Spec files, or names from `bench list`; all: every one.")
    ],
    *,
    out: RecordFolder = Path(".bench"),
    workers: options.Jobs,
    quick: Annotated[
        bool, Option("--quick", help="A small part: small datasets, one seed, one epsilon, two grid points.")
    ] = False,
    datasets: Annotated[str | None, Option(help="Only these of the datasets: NAME,NAME,...")] = None,
    results: Annotated[
        Path | None, Option(help="Also write the table as JSON to this file; of several specs, to this folder.")
    ] = None,
    merge: Annotated[
        bool,
        Option("--merge", help="Keep the other lines of the file of --results; those of this run replace theirs."),
    ] = False,
    own: options.OwnMethods = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Run experiments. What was finished before, and what they share, is not run again.

    Exit code 1 if a task failed; the table says why, and the same command tries it again.
    """
    from graphveil_lab.bench import audits, runner, table
    from graphveil_lab.bench.spec import load_many

    import_methods(own)
    wanted = load_many(specs, datasets=None if datasets is None else [name.strip() for name in datasets.split(",")])
    whole = load_many(specs)
    # As given: --datasets may leave one of several, and the folder stays a folder.
    several = len(set(specs)) > 1 or "all" in specs
    files = {name: results / f"{name}.json" if several and results is not None else results for name in wanted}
    compute = workers.compute(quiet)
    for name, file in files.items():
        require_files(None, file)
        if (quick or datasets is not None) and not merge and file is not None and file.exists():
            table.require_no_loss(wanted[name], file, quick)
    with resumable(out):
        found = runner.run_many(list(wanted.values()), out=out, compute=compute, quick=quick)
    tables = {}
    for (name, spec), records in zip(wanted.items(), found, strict=True):
        tables[name] = table.summarise(spec, records, audits.by_claim(audits.finished(spec, out=out)))
        if (file := files[name]) is not None and merge and file.exists():
            table.write_into(tables[name], file, whole[name])
        elif file is not None:
            table.write(tables[name], file)
    if as_json and several:
        print_json({name: json.loads(table.show(rows, json=True)) for name, rows in tables.items()})
    else:
        for name, rows in tables.items():
            heading = f"{name}: {wanted[name].title}\n" if several else ""
            echo(f"{heading}{table.show(rows, json=as_json)}" + ("\n" if heading else ""))
    if failures := [record.failure for records in found for record in records if record.failure]:
        echo(f"{len(failures):,} of the tasks failed, the first with: {failures[0]}", err=True)
        raise typer.Exit(1)


@app.command("list")
def bench_list(
    out: RecordFolder = Path(".bench"),
    as_json: options.AsJson = False,
) -> None:
    """List the experiments that ship with graphveil, and how much of each is done."""
    from graphveil_lab.bench import runner
    from graphveil_lab.bench.spec import load, names

    rows = [{"name": name, **runner.progress_of(load(name), out=out)} for name in names()]
    print_rows(rows, as_json)


@app.command("audit")
@options.grouped
def bench_audit(
    spec: SpecName,
    *,
    out: RecordFolder = Path(".bench"),
    runs: Annotated[int, Option(min=2, help="Runs of each claim, on both graphs together.")] = 400,
    results: Annotated[
        Path | None, Option(help="Also put the bounds beside the lines of this table, which bench run wrote.")
    ] = None,
    workers: options.Jobs,
    own: options.OwnMethods = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Attack every claim of an experiment on small graphs; its table then shows certified lower bounds.

    Exit code 3 if a claim is refuted.
    """
    from graphveil_lab.bench import audits, kept, table
    from graphveil_lab.bench.spec import load

    import_methods(own)
    wanted, compute = load(spec), workers.compute(quiet)
    if results is not None:
        kept.load(results)  # before an hour of runs, whose end it would spoil
    with resumable(out):
        found = audits.run(wanted, out=out, compute=compute, runs=runs)
    if results is not None:
        table.write_findings(audits.by_claim(found), results, wanted)
    rows = [audit.row() for audit in found]
    print_rows(rows, as_json)
    if any(row["verdict"] == "refuted" for row in rows):
        raise typer.Exit(3)


@app.command("show")
def bench_show(
    spec: SpecName,
    out: RecordFolder = Path(".bench"),
    own: options.OwnMethods = None,
    as_json: options.AsJson = False,
) -> None:
    """Show an experiment's table: mean, spread, and the published figure beside ours."""
    from graphveil_lab.bench import table

    import_methods(own)
    _, rows = table.recorded(spec, out)
    echo(table.show(rows, json=as_json))


@app.command("markdown")
def bench_markdown(
    results: KeptFiles,
) -> None:
    """Print kept results as one Markdown table, as in the README."""
    from graphveil_lab.bench.table import markdown

    echo(markdown(results))


@app.command("board")
def bench_board(
    results: KeptFiles,
    epsilon: Annotated[float, Option(help="The epsilon at which methods are compared.")] = 4.0,
    best: Annotated[
        bool, Option("--best", help="Only the best proven line of each graph, at every epsilon, and its gaps.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Print kept results as a leaderboard: per unit and split, methods against datasets."""
    from graphveil_lab.bench.best_proven import best_proven
    from graphveil_lab.bench.table import board, board_lines

    if best and as_json:
        raise typer.BadParameter("--best is printed as Markdown; take --json without it")
    if best:
        echo(best_proven(results))
    elif as_json:
        print_json([{"label": line.full_label, **line.model_dump()} for line in board_lines(results, epsilon)])
    else:
        echo(board(results, epsilon))
