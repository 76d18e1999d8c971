"""
L{Installation}: a virtual environment of its own, to install rustlog and its plugins into.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.integration.daemon import PATIENCE_SECONDS, ROOT, command

PACKED = ("LICENSE", "README.md", "pyproject.toml", "rustlog", "setup.cfg", "twisted")
"""What a package is made of; the rest of a checkout stays at home."""

IGNORED = shutil.ignore_patterns("__pycache__", "dropin.cache", "*.egg-info", "build")


def run(arguments: list[str], directory: Path) -> str:
    """Run a command that has to succeed; what it says."""
    done = subprocess.run(
        arguments,
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS * 2,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def copy_checkout(place: Path) -> Path:
    """A checkout of its own: building leaves things behind."""
    place.mkdir()
    for name in PACKED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=IGNORED)
        else:
            shutil.copy(source, place / name)
    return place


class Installation:
    """A fresh virtual environment that has what rustlog needs, but not rustlog."""

    def __init__(self, place: Path) -> None:
        self.place = place / "venv"
        venv.create(self.place, symlinks=True)
        self.python = str(self.place / "bin" / "python")
        (site_packages,) = self.place.glob("lib/python*/site-packages")
        self.site_packages = site_packages
        # A path that is added in this way is searched for packages, but not for further .pth files:
        # an editable rustlog that the tests themselves run from is not seen.
        (site_packages / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.elsewhere = place / "elsewhere"
        self.elsewhere.mkdir()

    def pip(self, *arguments: str) -> None:
        run([sys.executable, "-m", "pip", "--python", self.python, *arguments], self.elsewhere)

    def install(self, *what: str) -> None:
        """Without what it needs: that is there."""
        self.pip("install", "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed", *what)

    def twistd(self, *arguments: str) -> str:
        return run([self.python, *command("twistd", *arguments)[1:]], self.elsewhere)

    def ask(self, expression: str) -> str:
        """What an expression is worth there."""
        program = f"import rustlog, rustlog.plugins, rustlog.interfaces; print({expression})"
        return run([self.python, "-c", program], self.elsewhere).strip()
