"""First steps of a newcomer, timed: wheels are built, installed into a bare environment, and used there without make.

    python tests/first_steps.py                 # pip installs what the wheels need
    python tests/first_steps.py --beside        # the wheels alone, beside the packages of this environment

Commands typed and seconds of each, up to the first certificate; then a release of one's own, verified and filed. Ends
with exit code 1 if a command fails or the wheel lacks a file of the package. Versions are those of constraints.txt.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TYPED = (
    "graphveil demo --quiet --out demo",
    "graphveil train hearsay social --unit edge --epsilon 2 --quiet --out model",
    "graphveil verify model",
    "graphveil card model --format registry",
    "graphveil bench list",
)
"""What a newcomer types; the first prints a certificate. Templates and experiments of the wheel are read."""


def build(folder: Path) -> list[Path]:
    """The wheels of this checkout: the library and the laboratory."""
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    _run([*wheel, str(ROOT), str(ROOT / "lab")], folder)
    return [next(folder.glob(f"{name}-*.whl")) for name in ("graphveil", "graphveil_lab")]


def package_files() -> list[str]:
    """The files of the package, as a wheel names them."""
    source = ROOT / "src"
    found = [path for path in (source / "graphveil").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return sorted(path.relative_to(source).as_posix() for path in found)


def missing(wheel: Path) -> list[str]:
    """Files of the package that the wheel lacks."""
    with zipfile.ZipFile(wheel) as packed:
        held = set(packed.namelist())
    return [name for name in package_files() if name not in held]


def installed(wheels: list[Path], folder: Path, beside: bool) -> dict[str, str]:
    """A bare environment with the wheels in it, as variables: nothing in them leads to the source."""
    bare = folder / "bare"
    _run([sys.executable, "-m", "venv", str(bare)], folder)
    python = bare / "bin" / "python"
    if beside:
        _run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", *map(str, wheels)], folder)
        found = _run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).strip()
        # After its own packages: the wheels come first, whatever of graphveil this environment has.
        Path(found, "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    else:
        given = ["--constraint", str(ROOT / "constraints.txt"), *map(str, wheels)]
        _run([str(python), "-m", "pip", "install", "--quiet", *given], folder)
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GRAPHVEIL_DATA")}
    return {**kept, "PATH": f"{bare / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def _run(words: list[str], folder: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", action="store_true", help="use the packages of this environment")
    beside = parser.parse_args().beside
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wheels = build(folder)
        if lacking := missing(wheels[0]):
            raise SystemExit(f"the wheel lacks {', '.join(lacking)}")
        print(f"{wheels[0].stat().st_size / 1e6:.1f} MB wheel\n\n| typed | seconds |\n|---|---|")
        start = time.perf_counter()
        env = installed(wheels, folder, beside)
        names = " ".join(wheel.name for wheel in wheels)
        print(f"| `python -m venv bare; pip install {names}` | {time.perf_counter() - start:.0f} |")
        work = folder / "work"
        work.mkdir()
        home = _run([f"{folder}/bare/bin/python", "-c", "import graphveil; print(graphveil.__file__)"], work, env)
        if not home.startswith(str(folder)):
            raise SystemExit(f"graphveil comes from {home.strip()}, and not from the wheel")
        for line in TYPED:
            start = time.perf_counter()
            _run([f"{folder}/bare/bin/{line.split()[0]}", *line.split()[1:]], work, env)
            print(f"| `{line}` | {time.perf_counter() - start:.0f} |", flush=True)


if __name__ == "__main__":
    main()
