"""What `deploy/` holds fits together, and fits this version; images are not built here."""

import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyspark
import pytest
import yaml

from logdriven_dagster.config import load_project

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
STAGES = re.findall(r"^FROM (\S+) AS (\S+)$", DOCKERFILE, re.MULTILINE)
IMAGES = ("run", "thin", "web")


@cache
def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "docker-compose.yaml").read_text())
    return read


@cache
def values() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "helm-values.yaml").read_text())
    return read


def instructions(stage: str) -> list[str]:
    """The lines of a stage, with those of the stages that it is made from before them."""
    text = next(
        part
        for part in re.split(r"^(?=FROM )", DOCKERFILE, flags=re.MULTILINE)
        if f" AS {stage}\n" in part
    )
    parent = text.split()[1]
    before = instructions(parent) if parent in dict(map(reversed, STAGES)) else []
    return [*before, *text.replace("\\\n", " ").splitlines()]


def settings() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "project" / "logdriven.yaml").read_text())
    return read


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_as_a_number_that_is_not_root(image):
    users = [line.split()[1] for line in instructions(image) if line.startswith("USER ")]
    assert users[-1].isdigit()
    assert users[-1] != "0"


def test_what_images_copy_is_there_and_is_sent_to_the_builder():
    sent = {
        line[1:]
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    text = DOCKERFILE.replace("\\\n", " ").replace("${PROJECT}", "deploy/project")
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    for name in " ".join(copies).split():
        assert (ROOT / name).exists()
        assert name in sent or name.partition("/")[0] in sent


@pytest.mark.parametrize(("package", "place"), [("", "'."), ("core", "'./core")])
def test_extras_of_images_exist(package, place):
    there = re.findall(
        r"^(\w+) = \[", (ROOT / package / "pyproject.toml").read_text(), re.MULTILINE
    )
    for asked in re.findall(rf"{re.escape(place)}\[([\w,]+)\]'", DOCKERFILE):
        assert set(asked.split(",")) <= set(there)


def test_jars_are_of_the_hadoop_that_pyspark_has():
    (version,) = re.findall(r"^ARG HADOOP=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert list(Path(pyspark.__file__).parent.glob(f"jars/hadoop-client-api-{version}.jar"))


def test_the_chart_is_of_our_dagster():
    (locked,) = re.findall(r"^dagster==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    text = (DEPLOY / "helm-values.yaml").read_text()
    assert set(re.findall(r"\d+\.\d+\.\d+", text.partition("global:")[0])) == {locked}


def test_services_of_compose_refer_to_each_other_and_to_files_that_are_there():
    services = compose()["services"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        assert service.get("build", {}).get("target", "run") in IMAGES
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert (DEPLOY / source).is_file() if "/" in source else source in compose()["volumes"]


def test_secrets_of_compose_are_those_of_the_example_and_stand_nowhere():
    text = (DEPLOY / "docker-compose.yaml").read_text()
    asked = set(re.findall(r"\$\{(\w+)", text))
    example = (DEPLOY / ".env.example").read_text()
    assert asked == set(re.findall(r"^(\w+)=$", example, re.MULTILINE))
    assert not re.search(r"(?i)(password|secret|_key)\w*: \w", text)


def test_every_host_that_the_project_and_dagster_name_is_a_service():
    ours, workspace = settings(), yaml.safe_load((DEPLOY / "workspace.yaml").read_text())
    named = {
        urlsplit(ours[part][name]).hostname
        for part, name in [
            ("storage", "s3.endpoint"),
            ("catalog", "uri"),
            ("spark", "remote"),
        ]
    }
    named |= {server["grpc_server"]["host"] for server in workspace["load_from"]}
    assert named <= set(compose()["services"])


def test_the_project_of_compose_is_a_valid_one(monkeypatch):
    for name in re.findall(r"\$\{env:(\w+)\}", (DEPLOY / "project" / "logdriven.yaml").read_text()):
        monkeypatch.setenv(name, "sqlite:///x.db" if name == "LOGDRIVEN_RUN_LOG" else "something")
    project = load_project(DEPLOY / "project")
    assert set(project.tables) == {"ods.orders", "dws.revenue"}
    assert project.warehouse == "s3://lake/warehouse"


def test_dagster_takes_our_instance(postgres_url, monkeypatch):
    from dagster import DagsterInstance

    url = postgres_url.set(drivername="postgresql").render_as_string(hide_password=False)
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", url)
    with DagsterInstance.from_config(str(DEPLOY)) as instance:
        assert instance.run_monitoring_enabled
        assert not instance.telemetry_enabled
        assert instance.get_runs_count() == 0


def test_run_pods_of_the_chart_have_memory_for_a_jvm_and_no_keys():
    launcher = values()["runLauncher"]["config"]["k8sRunLauncher"]
    assert launcher["runK8sConfig"]["containerConfig"]["resources"]["limits"]["memory"] == "8Gi"
    (deployment,) = values()["dagster-user-deployments"]["deployments"]
    assert deployment["includeConfigInLaunchedRuns"]["enabled"]
    assert deployment["envSecrets"] == [{"name": "shop"}]
    assert "password" not in str(values()).lower().replace("generatepostgresqlpasswordsecret", "")
