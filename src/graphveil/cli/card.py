"""The command that shows what a release promises."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphveil.cli.options import App
from graphveil.cli.output import require_files, say

app = App()


@app.command()
def card(
    release: Annotated[Path, typer.Argument(help="Release folder, of a model or of a graph.")],
    html: Annotated[Path | None, typer.Option(help="Write it as a page instead, which opens offline.")] = None,
) -> None:
    """Show a release's card: a sentence to sign, who is and is not protected, and what was done. Checks the folder."""
    from graphveil.core import InvalidInput
    from graphveil.release.verify import verify
    from graphveil.report import card_page
    from graphveil.runtime.folders import write_file

    if html is not None and html.suffix != ".html":
        raise InvalidInput(f"{html} must end in .html, so that no other file is overwritten")
    require_files(release, html)
    found = verify(release)
    if html is None:
        say(found.card())
        return
    write_file(html, card_page(found).encode())
    say(f"{html}: {found.certificate.promised}")
