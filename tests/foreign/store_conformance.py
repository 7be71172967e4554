"""Run LangGraph's own store tests on `RecallLoopStore` (API-5); for `make store-conformance` and CI.

Each set of tests comes from the source package of the very version that is installed, by pip, and runs in a folder of
its own: nothing of it is kept. `store_stand_in.py` is the plugin that puts our store in the place of theirs.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What their tests import beyond what is installed for ours.
NEEDED = "pytest-mock>=3.14,<4"
SETS = {
    "langgraph-checkpoint": ["tests/test_store.py"],
    "langgraph-checkpoint-sqlite": ["tests/test_store.py", "tests/test_ttl.py"],
}
SETTINGS = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nmarkers = flaky\n"


def pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)


def unpack_tests(package: str, folder: Path) -> None:
    """Download the source package of the installed version and unpack its tests, and nothing else, into `folder`."""
    wanted = f"{package}=={version(package)}"
    pip("download", "-q", "--no-binary", ":all:", "--no-deps", "-d", str(folder), wanted)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        members = [one for one in opened.getmembers() if one.name.split("/")[1:2] == ["tests"]]
        for one in members:
            one.name = one.name.split("/", 1)[1]
        opened.extractall(folder, members, filter="data")
    (folder / "pytest.ini").write_text(SETTINGS)


def run(package: str, files: list[str], folder: Path, site: Path) -> int:
    print(f"== {package} {version(package)}: {', '.join(files)}", flush=True)
    paths = [str(HERE), str(site), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "STORE_TESTS_OF": package}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "store_stand_in", "-p", "no:cacheprovider", *files]
    return subprocess.run(command, check=False, cwd=folder, env=environment).returncode


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        site = Path(name) / "site"
        pip("install", "-q", "--no-deps", "--target", str(site), NEEDED)
        failed = 0
        for package, files in SETS.items():
            folder = Path(name) / package
            folder.mkdir()
            unpack_tests(package, folder)
            failed |= run(package, files, folder, site)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
