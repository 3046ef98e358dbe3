"""Manifests for Kubernetes: valid by its schema, and what a flow needs is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kubernetes_flows import FLOW, SERVED, Link, Objects
from scale import sample

EXISTING = '[cluster]\nnats = "nats://broker.example:4222"\n' + FLOW
THREE = "[cluster]\nstream_replicas = 3\n" + FLOW
# One that most clusters have, and the newest that the package knows.
VERSIONS = sample(["1.37"], full=["1.28", "1.37"])


def named(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    found = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1
    return found[0]


def container(workload: dict[str, Any]) -> dict[str, Any]:
    (only,) = workload["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def variables(workload: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each for each in container(workload)["env"]}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", [FLOW, EXISTING, THREE, SERVED], ids=range(4))
def test_every_object_is_valid_by_the_schema(objects: Objects, manifest: str, version: str) -> None:
    from kubernetes_validate import validate

    for each in objects(manifest, "--namespace", "shop"):
        validate(each, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_jobs_are_valid_by_the_schema(objects: Objects, version: str) -> None:
    from kubernetes_validate import validate

    for each in objects(FLOW, "--job", "night-1"):
        validate(each, version, strict=True)


def test_a_flow_that_ends_is_a_job_for_each_group(objects: Objects) -> None:
    found = objects(FLOW, "--job", "night-1")
    totals = named(found, "Job", "shop-main-totals-night-1")

    assert {"StatefulSet", "PodDisruptionBudget"} & {
        each["kind"] for each in found if "nats" not in each["metadata"]["name"]
    } == set()
    assert totals["spec"]["completionMode"] == "Indexed"
    assert (totals["spec"]["completions"], totals["spec"]["parallelism"]) == (2, 2)
    assert container(totals)["command"] == [
        *("torvyn", "run", "flow.main", "--format", "json"),
        *("--segment", "totals", "--replica", "$(REPLICA)", "--run", "night-1"),
    ]
    field = variables(totals)["REPLICA"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert field == "metadata.annotations['batch.kubernetes.io/job-completion-index']"


@pytest.mark.parametrize(
    ("manifest", "job", "said"),
    [(FLOW, "one.two", "cannot be the name of a run"), (SERVED, "x", "cannot be a Job")],
)
def test_what_cannot_be_a_job_is_refused(link: Link, manifest: str, job: str, said: str) -> None:
    done = link(manifest, "--image", "x", "--job", job)

    assert done.returncode == 2
    assert said in done.stderr


def test_the_pod_of_a_flow_in_one_piece_names_no_segment(objects: Objects) -> None:
    in_memory = FLOW.replace('carrier = "nats"\n', "").replace("replicas = 2, ", "")
    only = named(objects(in_memory), "StatefulSet", "shop-main-readings")

    assert container(only)["command"] == ["torvyn", "run", "flow.main", "--format", "json"]


def test_a_mistake_is_found_by_the_schema(objects: Objects) -> None:
    import kubernetes_validate as validation

    wrong = named(objects(FLOW), "StatefulSet", "shop-main-totals")
    wrong["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x"

    with pytest.raises(validation.ValidationError, match="imagee"):
        validation.validate(wrong, VERSIONS[-1], strict=True)


def test_each_group_is_a_stateful_set_with_what_it_needs(objects: Objects) -> None:
    found = objects(FLOW)
    totals = named(found, "StatefulSet", "shop-main-totals")

    assert [
        named(found, "StatefulSet", f"shop-main-{name}")["spec"]["replicas"]
        for name in ("readings", "totals", "uplink")
    ] == [1, 2, 1]
    assert container(totals)["resources"] == {
        "requests": {"cpu": "500m", "memory": "512Mi"},
        "limits": {"memory": "512Mi", "nvidia.com/gpu": 1},
    }


def test_a_pod_runs_its_segment_with_the_number_of_the_pod(objects: Objects) -> None:
    totals = named(objects(FLOW), "StatefulSet", "shop-main-totals")

    assert container(totals)["command"] == [
        *("torvyn", "run", "flow.main", "--format", "json"),
        *("--segment", "totals", "--replica", "$(REPLICA)"),
    ]
    field = variables(totals)["REPLICA"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert field == "metadata.labels['apps.kubernetes.io/pod-index']"


@pytest.mark.parametrize("manifest", [FLOW, SERVED])
def test_no_pod_runs_as_root_or_writes_to_its_image(objects: Objects, manifest: str) -> None:
    workloads = [
        each for each in objects(manifest) if each["kind"] in ("StatefulSet", "Deployment")
    ]

    for each in workloads:
        assert each["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"]
        security = container(each)["securityContext"]
        assert security["readOnlyRootFilesystem"]
        assert security["capabilities"] == {"drop": ["ALL"]}


def test_a_broker_comes_with_the_flow(objects: Objects) -> None:
    found = objects('[cluster]\nnats = "nats://127.0.0.1:4222"\n' + FLOW)

    assert named(found, "StatefulSet", "shop-main-nats")["spec"]["replicas"] == 1
    worker = variables(named(found, "StatefulSet", "shop-main-uplink"))
    assert worker["TORVYN_CLUSTER__NATS"]["value"] == "nats://$(NATS_TOKEN)@shop-main-nats:4222"
    names = list(worker)
    assert names.index("NATS_TOKEN") < names.index("TORVYN_CLUSTER__NATS")


@pytest.mark.parametrize(
    ("settings", "expected"), [("", {"value": "shop"}), ('[cluster]\nnamespace = "n"\n', None)]
)
def test_all_images_of_a_project_have_one_namespace_at_the_broker(
    objects: Objects, settings: str, expected: dict[str, str] | None
) -> None:
    worker = variables(named(objects(settings + FLOW), "StatefulSet", "shop-main-uplink"))
    found = worker.get("TORVYN_CLUSTER__NAMESPACE")
    assert found == (expected and {"name": "TORVYN_CLUSTER__NAMESPACE", **expected})


def test_each_copy_of_an_element_has_a_server(objects: Objects) -> None:
    assert named(objects(THREE), "StatefulSet", "shop-main-nats")["spec"]["replicas"] == 3


@pytest.mark.parametrize("options", [(), ("--nats", "nats://broker.example:4222")])
def test_a_broker_that_exists_is_used(objects: Objects, options: tuple[str, ...]) -> None:
    found = objects(FLOW if options else EXISTING, *options)

    assert "shop-main-nats" not in [each["metadata"]["name"] for each in found]
    worker = variables(named(found, "StatefulSet", "shop-main-uplink"))
    assert worker["TORVYN_CLUSTER__NATS"]["value"] == "nats://broker.example:4222"


def test_the_password_of_a_broker_is_in_no_file(link: Link) -> None:
    url = "nats://me:secret@broker.example"

    done = link(FLOW, "--image", "shop", "--nats", url)

    assert "secret@" not in done.stdout + done.stderr
    assert "kubectl create secret generic shop-main-nats" in done.stderr


def test_variables_of_the_manifest_come_from_a_secret(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INPUT", "hidden.txt")
    found = objects(FLOW.replace("readings.txt", "${INPUT}"))

    assert "hidden.txt" not in str(found)
    reference = variables(named(found, "StatefulSet", "shop-main-readings"))["INPUT"]
    secret = reference["valueFrom"]["secretKeyRef"]
    assert secret == {"name": "shop-main-variables", "key": "INPUT"}


def test_a_flow_that_answers_requests_is_served(objects: Objects) -> None:
    found = objects(SERVED, "--namespace", "web")

    assert [each["kind"] for each in found] == ["Service", "Deployment", "PodDisruptionBudget"]
    server = named(found, "Deployment", "shop-chat")
    assert container(server)["command"][:2] == ["torvyn", "serve"]
    hosts = variables(server)["TORVYN_SERVE__HOSTS"]["value"]
    assert hosts == "shop-chat,shop-chat.web,shop-chat.web.svc,shop-chat.web.svc.cluster.local"


def test_options_of_the_command_line_reach_the_pods(objects: Objects) -> None:
    found = objects(FLOW, "--config", "readings.path=$(x)", "--set", "runtime.max_silence=1m")

    command = container(named(found, "StatefulSet", "shop-main-uplink"))["command"]
    assert command[-4:] == [
        *("--config", "readings.path=$$(x)"),
        *("--set", "runtime.max_silence=1m"),
    ]


def test_names_that_kubernetes_does_not_accept_are_changed(objects: Objects) -> None:
    manifest = FLOW.replace("uplink", "Up_Link").replace("totals", "nats")

    names = [each["metadata"]["name"] for each in objects(manifest) if each["kind"] == "Service"]

    assert names[0] == "shop-main-nats"
    assert names[2] == "shop-main-nats-group"
    assert names[3].startswith("shop-main-up-link-")


@pytest.mark.parametrize(
    ("place", "message"),
    [("gpus = 0.5", "whole ones"), ("resources = { camera = 1 }", "example.com/camera")],
)
def test_what_kubernetes_cannot_give_is_refused(link: Link, place: str, message: str) -> None:
    done = link(FLOW.replace("gpus = 1", place), "--image", "shop")

    assert done.returncode == 2
    assert message in done.stderr


def test_manifests_are_written_to_a_folder(link: Link, tmp_path: Path) -> None:
    done = link(FLOW, "--image", "shop", "-o", "out", "--namespace", "shop")

    assert done.stdout == ""
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == ["nats.yaml", "readings.yaml", "totals.yaml", "uplink.yaml"]
    assert "kubectl apply -n shop -f out" in done.stderr


def test_the_image_must_be_named(link: Link) -> None:
    done = link(FLOW)

    assert done.returncode == 2
    assert "--image" in done.stderr
