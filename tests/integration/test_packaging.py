"""What is packed, and that it is found once it is installed, from any directory."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from tests.integration.daemon import ROOT
from tests.integration.installation import Installation, copy_checkout, run

BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    place = tmp_path_factory.mktemp("sdist")
    checkout = copy_checkout(place / "checkout")
    run([sys.executable, "-c", BUILD, "build_sdist", str(place)], checkout)
    (made,) = place.glob("*.tar.gz")
    return made


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution as an installer would build it."""
    place = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    (source,) = place.iterdir()
    run([sys.executable, "-c", BUILD, "build_wheel", str(place)], source)
    (made,) = place.glob("*.whl")
    return made


def assert_works(installation: Installation) -> None:
    """Twisted lists it, its plugins are found once each, and it runs."""
    help_lines = [line.split() for line in installation.twistd("--help").splitlines()]
    assert [words[:2] for words in help_lines].count(["rustlog", "A"]) == 1
    found = "[each.name for each in rustlog.plugins.installed(rustlog.interfaces.{})]"
    assert installation.ask(found.format("ILogStoreFactory")) == "['memory', 'minikafka', 'segments']"
    protocols = ["fluvio", "fluvio-spu", "http", "kafka", "minikafka", "rustlog"]
    assert installation.ask(found.format("IWireProtocol")) == str(protocols)
    version = installation.ask("rustlog.__version__")
    assert installation.twistd("-n", "rustlog", "--version") == f"rustlog {version}\n"
    tool = [str(installation.place / "bin" / "rustlog"), "version"]
    assert run(tool, installation.elsewhere) == f"rustlog {version}\n"


def modules_of_checkout() -> set[str]:
    return {str(path.relative_to(ROOT)) for path in (ROOT / "rustlog").rglob("*.py")}


def test_sdist(sdist: Path) -> None:
    """The source distribution has everything to build from, under one directory."""
    with tarfile.open(sdist) as archive:
        names = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}
    assert {"LICENSE", "README.md", "setup.cfg", "pyproject.toml", "rustlog/py.typed"} <= names
    assert "twisted/plugins/rustlog_plugin.py" in names
    assert modules_of_checkout() <= names


def test_wheel(wheel: Path) -> None:
    """The wheel has all of rustlog, its one file among Twisted's plugins, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tops = {name.split("/")[0] for name in names}
    assert len(tops) == 3
    assert {"rustlog", "twisted"} < tops
    assert {name for name in names if name.startswith("twisted/")} == {"twisted/plugins/rustlog_plugin.py"}
    ours = {name for name in names if name.startswith("rustlog/")}
    assert ours == modules_of_checkout() | {"rustlog/py.typed", "rustlog/spark/native.c"}


def test_no_init_files() -> None:
    """Twisted's own packages are not replaced by ours: there is no C{__init__.py} among them."""
    assert list((ROOT / "twisted").rglob("__init__.py")) == []


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_install(
    installation: Installation, kind: str, request: pytest.FixtureRequest
) -> None:
    """Installed, it is found from another directory; uninstalled, it is gone."""
    installation.install(str(request.getfixturevalue(kind)))
    assert_works(installation)
    assert installation.ask("rustlog.__file__").startswith(str(installation.site_packages))
    installation.pip("uninstall", "--yes", "rustlog")
    assert "A log broker" not in installation.twistd("--help")
    assert not (installation.site_packages / "twisted" / "plugins" / "rustlog_plugin.py").exists()
    assert not (installation.place / "bin" / "rustlog").exists()


def test_editable_install(installation: Installation, tmp_path: Path) -> None:
    """Installed to be worked on, it is found likewise, new modules and all."""
    checkout = copy_checkout(tmp_path / "checkout")
    installation.install("--editable", str(checkout))
    assert_works(installation)
    assert installation.ask("rustlog.__file__") == str(checkout / "rustlog" / "__init__.py")
    (checkout / "rustlog" / "novelty.py").write_text("WORD = 'hello'\n")
    assert installation.ask("__import__('rustlog.novelty').novelty.WORD") == "hello"


def test_metadata(wheel: Path) -> None:
    """What the checkers of packages look at is there."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    assert "\nRequires-Python: >=3.11\n" in metadata
    assert "\nDescription-Content-Type: text/markdown\n" in metadata
    assert "# rustlog" in metadata
