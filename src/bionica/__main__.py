"""The program ``bionica``, and ``python -m bionica``."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from bionica.cli import app

        app()
    except (
        KeyboardInterrupt
    ):  # while modules are imported; later the commands handle it
        print("Interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(130)


if __name__ == "__main__":
    main()
