"""The deployment files keep their promises, as far as can be checked without a Docker engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from recall_loop.cli.main import VERBS, build_parser
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.files.store_place import is_address
from recall_loop.state.settings.settings import Settings
from tests.service_server import running_service

PORT = "8321"


@pytest.fixture
def dockerfile(root: Path) -> list[list[str]]:
    """The instructions of the Dockerfile, each as its name and the rest."""
    text = re.sub(r"^ *#.*\n", "", (root / "deploy" / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [line.split(maxsplit=1) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def values(dockerfile: list[list[str]], name: str) -> list[str]:
    return [rest for instruction, rest in dockerfile if instruction == name]


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def parses(words: list[str]) -> bool:
    return bool(build_parser(list(VERBS)).parse_args(words))


def test_the_image_is_slim_runs_as_nobody_and_writes_to_its_data_alone(dockerfile: list[list[str]]) -> None:
    """Proves: SHIP-1."""
    bases = [rest.split()[0] for rest in values(dockerfile, "FROM")]
    assert len(bases) == 2 and all(re.fullmatch(r"python:3\.\d+-slim", base) for base in bases)
    assert values(dockerfile, "USER") == ["10001:10001"]
    assert values(dockerfile, "VOLUME") == ["/data"] and values(dockerfile, "EXPOSE") == [PORT]
    assert not values(dockerfile, "ADD")
    assert all("--no-cache-dir" in run for run in values(dockerfile, "RUN") if "pip install" in run)
    order = [name for name, _ in dockerfile]
    assert order.index("USER") < order.index("ENTRYPOINT") and order[-1] == "CMD"
    assert json.loads(values(dockerfile, "ENTRYPOINT")[0]) == ["recall-loop"]
    assert parses(json.loads(values(dockerfile, "CMD")[0]))
    assert "RECALL_LOOP_STORE_PATH=/data/" in values(dockerfile, "ENV")[0]


def test_the_image_gets_what_the_package_is_made_of_and_nothing_else(root: Path) -> None:
    """Proves: SHIP-1."""
    lines = (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
    named = {line[1:] for line in lines if line.startswith("!")}
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    folders = set(project["tool"]["setuptools"]["package-dir"].values())
    files = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    assert "*" in lines and named == folders | files


def test_the_health_check_detects_a_service_that_answers(dockerfile: list[list[str]], embedder: MiniLmEmbedder) -> None:
    """Proves: SHIP-1."""
    check = json.loads(values(dockerfile, "HEALTHCHECK")[0].partition("CMD ")[2])
    assert check[0] == "python" and f"127.0.0.1:{PORT}" in check[2]

    def healthy(address: str) -> bool:
        code = check[2].replace(f"127.0.0.1:{PORT}", address)
        return subprocess.run([sys.executable, check[1], code], check=False, capture_output=True).returncode == 0

    with running_service(settings=Settings(), embedder=embedder) as service:
        address = service.url.removeprefix("http://")
        assert healthy(address)
    assert not healthy(address)


def test_compose_starts_two_workers_beside_a_chroma_server_that_nobody_else_reaches(root: Path) -> None:
    """Proves: SHIP-1."""
    (compose,) = documents(root / "deploy" / "compose.yaml")
    memory, chroma = compose["services"]["memory"], compose["services"]["chroma"]
    assert (root / "deploy" / memory["build"]["context"] / memory["build"]["dockerfile"]).is_file()
    words = shlex.split(memory["command"])
    assert parses(words) and words[words.index("--workers") + 1] == "2"
    assert words[words.index("--chroma-url") + 1] == "http://chroma:8000"
    assert chroma["networks"] == ["inside"] and compose["networks"]["inside"]["internal"] and "ports" not in chroma
    assert all(port.startswith("127.0.0.1:") for port in memory["ports"])
    for service in (memory, chroma):
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["tmpfs"] == ["/tmp"]
        assert {volume.partition(":")[0] for volume in service["volumes"]} <= set(compose["volumes"])
    usage = re.findall(r"run --rm --no-deps memory (.+)", (root / "deploy" / "compose.yaml").read_text("utf-8"))
    assert len(usage) == 1 and parses(shlex.split(usage[0]))


def test_compose_with_postgresql_runs_two_containers_of_the_service(root: Path) -> None:
    """Proves: SHIP-1, HOST-1 (the role that serves is no superuser; nobody else reaches the database)."""
    path = root / "deploy" / "compose.postgresql.yaml"
    (compose,) = documents(path)
    memory, database, chroma = (compose["services"][name] for name in ("memory", "database", "chroma"))
    assert memory["deploy"]["replicas"] == 2 and memory["ports"] == ["127.0.0.1:8321-8322:8321"]
    assert (root / "deploy" / memory["build"]["context"] / memory["build"]["dockerfile"]).is_file()
    words = shlex.split(memory["command"])
    assert parses(words) and words[words.index("--chroma-url") + 1] == "http://chroma:8000"
    place = memory["environment"]["RECALL_LOOP_STORE_PATH"]
    assert is_address(place) and place.startswith("postgresql://recall@database/")  # its password comes apart
    for service in (database, chroma):
        assert service["networks"] == ["inside"] and "ports" not in service
        assert memory["depends_on"]["database" if service is database else "chroma"]["condition"] == "service_healthy"
    assert compose["networks"]["inside"]["internal"]
    # Over TCP: while PostgreSQL is first set up it answers on its socket only.
    assert "-h 127.0.0.1" in database["healthcheck"]["test"][1]
    for service in (memory, chroma):
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["tmpfs"] == ["/tmp"]
    named = {volume.partition(":")[0] for service in (memory, database, chroma) for volume in service["volumes"]}
    assert named - {"./make-role.sh"} == set(compose["volumes"])
    usage = re.findall(r"run --rm --no-deps memory (.+)", path.read_text("utf-8"))
    assert len(usage) == 1 and parses(shlex.split(usage[0]))


def compose_config(path: Path, copy: Path, **passwords: str) -> subprocess.CompletedProcess[str]:
    """Have a client of docker compose read a file; skip where there is none."""
    docker, older = shutil.which("docker"), shutil.which("docker-compose")
    if docker and not subprocess.run([docker, "compose", "version"], check=False, capture_output=True).returncode:
        command = [docker, "compose", "-f", str(path)]
    elif older:  # its version 1 knows everything but the project's name
        text = path.read_text(encoding="utf-8")
        copy.write_text(re.sub(r"^name:.*\n", "", text, flags=re.MULTILINE), encoding="utf-8")
        command = [older, "--project-directory", str(path.parent), "-f", str(copy)]
    else:
        pytest.skip("no client of docker compose")
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_PASSWORD")} | passwords
    return subprocess.run([*command, "config"], check=False, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("name", ["compose.yaml", "compose.postgresql.yaml"])
def test_compose_itself_reads_the_files(root: Path, tmp_path: Path, name: str) -> None:
    """Proves: SHIP-1 (where its client is there)."""
    path = root / "deploy" / name
    done = compose_config(path, tmp_path / name, POSTGRES_PASSWORD="p1", RECALL_PASSWORD="p2")
    assert done.returncode == 0, done.stderr
    read, (written,) = yaml.safe_load(done.stdout), documents(path)
    assert set(read["services"]) == set(written["services"]) and set(read["volumes"]) == set(written["volumes"])
    assert Path(read["services"]["memory"]["build"]["context"]).resolve() == root


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "the password of"),
        ({"POSTGRES_PASSWORD": "p1"}, "the password of the role that serves"),
        ({"RECALL_PASSWORD": "p2"}, "the password of the administrator"),
        ({"POSTGRES_PASSWORD": "", "RECALL_PASSWORD": ""}, "the password of"),
    ],
)
def test_compose_names_the_password_that_is_missing(
    root: Path, tmp_path: Path, given: dict[str, str], missing: str
) -> None:
    """Proves: SHIP-1 (where its client is there)."""
    path = root / "deploy" / "compose.postgresql.yaml"
    done = compose_config(path, tmp_path / path.name, **given)
    assert done.returncode != 0 and missing in done.stderr


def test_kubernetes_runs_one_replica_without_privileges(root: Path) -> None:
    """Proves: SHIP-1."""
    found = {one["kind"]: one for one in documents(root / "deploy" / "kubernetes.yaml")}
    assert set(found) == {"Service", "StatefulSet", "NetworkPolicy"}
    spec = found["StatefulSet"]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert spec["replicas"] == 1 and parses(container["args"])
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 10001
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    volumes = {one["name"] for one in pod["volumes"]} | {
        one["metadata"]["name"] for one in spec["volumeClaimTemplates"]
    }
    assert {one["name"] for one in container["volumeMounts"]} == volumes
    assert found["NetworkPolicy"]["spec"]["egress"] == []
    labels = spec["template"]["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"] == spec["selector"]["matchLabels"] == labels
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in ("/health", "/ready")


def test_workflows_run_the_gates_with_the_least_rights(root: Path) -> None:
    """Proves: SHIP-1."""
    found = {path.name: documents(path)[0] for path in sorted((root / ".github" / "workflows").glob("*.yml"))}
    assert set(found) == {"ci.yml", "release.yml"}
    for workflow in found.values():
        assert workflow["permissions"] == {"contents": "read"}
        steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
        assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in steps if "uses" in step)
        assert all(step["with"]["persist-credentials"] is False for step in steps if "checkout" in step.get("uses", ""))
        assert "bash .ci/run" in [step.get("run") for step in steps]
        assert all(job["timeout-minutes"] for job in workflow["jobs"].values())
    assert found["release.yml"][True]["push"]["tags"] == ["v[0-9]+.[0-9]+.[0-9]+"]
    assert found["release.yml"]["jobs"]["packages"]["permissions"]["attestations"] == "write"
