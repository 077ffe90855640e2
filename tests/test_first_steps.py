"""A wheel has every file of the package, and works in an environment without the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import first_steps


def test_a_wheel_that_lacks_a_template_is_seen(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as made:
        for name in first_steps.package_files():
            if not name.endswith(("style.css", "smoke.toml")):
                made.writestr(name, "")
    lacking = first_steps.missing(tmp_path / "some.whl")
    assert lacking == ["graphveil/templates/style.css"]


@pytest.mark.slow
def test_a_newcomer_gets_a_certificate_from_the_wheel_alone() -> None:
    script = Path(first_steps.__file__)
    done = subprocess.run([sys.executable, str(script), "--beside"], capture_output=True, text=True, check=False)
    if "hatchling" in done.stdout + done.stderr and done.returncode:
        pytest.skip("pip finds no hatchling here, which builds the wheel")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"| `{line}` |" in done.stdout for line in first_steps.TYPED)
