"""`dpgap desk`: open a desk, check its file, or make a token or a key."""

import logging
import secrets
from pathlib import Path
from typing import Annotated

import typer

from dpgap._package import how_to_get
from dpgap.cli.commands import notes, say_error
from dpgap.printable import printable


def desk(
    file: Annotated[Path | None, typer.Argument(help="The steward's file (TOML).")] = None,
    host: Annotated[str, "Where to listen."] = "127.0.0.1",
    port: Annotated[int, "Which port; 0 takes any that is free."] = 8765,
    check: Annotated[bool, "Check the file and count, then stop."] = False,
    token: Annotated[bool, "Print a new token, and the line for the file."] = False,
    key: Annotated[bool, "Print a new key for the file."] = False,
) -> None:
    """Serve pages and an API where people ask about data sets that they cannot read."""
    if key:
        typer.echo(f'for the file:   key = "{secrets.token_hex(32)}"')
        return
    try:
        from dpgap.desk.app import check_desk, open_desk, other_amounts, require_hosts, serve
        from dpgap.desk.auth import hash_of_token, new_token
        from dpgap.desk.config import FileFaults, read_stewards_file
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"the desk needs FastAPI and Uvicorn: {how_to_get('desk')}"
        ) from None
    if token:
        secret = new_token()
        typer.echo(f"for the person: {secret}")
        typer.echo(f'for the file:   tokens = ["{hash_of_token(secret)}"]')
        return
    if file is None:
        raise ValueError("the steward's file must be given")
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("dpgap.desk").setLevel(logging.INFO)
    try:
        with notes():
            listed = read_stewards_file(file)
            if exposed := listed.exposed():
                say_error(f"note: {exposed}: `chmod 600` keeps it to its owner")
            require_hosts(listed, host)
            missing, texts = check_desk(listed) if check else ([], [])
            for remark in [*other_amounts(listed), *texts]:
                say_error(f"note: {remark}")
            if check:
                typer.echo(printable(f"{file}: nothing is wrong"))
                if missing:
                    typer.echo(printable(f"A start would open the budgets: {', '.join(missing)}"))
                return
            opened = open_desk(listed)
    except FileFaults as faults:
        for line in faults.lines:
            say_error(line)
        raise typer.Exit(1) from None
    serve(opened, host, port, typer.echo)
