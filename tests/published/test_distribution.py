"""The wheel and the source archive hold what they must, and work outside the clone."""

import subprocess
import sys
import tarfile

import pytest

from published import distribution
from published.results import PROJECT


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*command, str(PROJECT)], check=True, capture_output=True)
    return folder


@pytest.mark.slow
def test_source_archive_has_what_the_readme_refers_to(packages):
    (archive,) = packages.glob("*.tar.gz")
    assert distribution.missing_files(archive) == []
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    files = {"Makefile", "maintain.sh", "constraints.txt", "docs/conf.py", "tests/conftest.py"}
    assert files <= names


@pytest.mark.slow
def test_installed_wheel_runs_an_experiment_outside_the_clone(packages, tmp_path):
    """With the dependencies of this environment, not compiled; `make dist` installs everything."""
    (wheel,) = packages.glob("*.whl")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True
    )
    python = tmp_path / "venv" / "bin" / "python"
    (site_packages,) = (tmp_path / "venv").glob("lib/*/site-packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(site_packages), str(wheel)], check=True)
    others = [path for path in sys.path if path.endswith("site-packages")]
    (site_packages / "others.pth").write_text("\n".join(others))
    (tmp_path / "work").mkdir()
    where = [str(python), "-I", "-c", "import heirloom; print(heirloom.__file__)"]
    found = subprocess.run(where, capture_output=True, text=True, check=True).stdout
    assert found.startswith(str(site_packages))
    distribution.check_installed(python, tmp_path / "work", compiled=False)
