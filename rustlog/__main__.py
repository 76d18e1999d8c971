"""C{python -m rustlog} is the console tool C{rustlog}."""

from __future__ import annotations

from rustlog.cli.main import run

if __name__ == "__main__":
    run()
