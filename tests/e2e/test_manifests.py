"""The manifests in deploy/ against Kubernetes' own schemas, and what they must agree in with one another."""
import pathlib

import kubernetes_validate
import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
NAMESPACE = "workload-variant-autoscaler-system"
# Kinds whose schemas come with other projects, and what they must have here.
CUSTOM = {
    "ScaledObject": ("keda.sh/v1alpha1", ["scaleTargetRef", "triggers"]),
    "ServiceMonitor": ("monitoring.coreos.com/v1", ["selector", "endpoints"]),
    "Kustomization": ("kustomize.config.k8s.io/v1beta1", None),
}


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def shipped():
    return [(path, document) for path in sorted(DEPLOY.rglob("*.yaml")) for document in documents(path)]


def named(kind, name):
    found = [document for _, document in shipped() if document["kind"] == kind and document["metadata"]["name"] == name]
    assert len(found) == 1, (kind, name)
    return found[0]


@pytest.mark.parametrize("path, document", shipped(), ids=lambda x: x.name if isinstance(x, pathlib.Path) else x["kind"])
def test_every_document_fits_its_schema(path, document):
    if document["kind"] in CUSTOM:
        version, keys = CUSTOM[document["kind"]]
        assert document["apiVersion"] == version
        assert keys is None or all(key in document["spec"] for key in keys)
        return
    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def test_a_document_that_does_not_fit_is_refused():
    broken = named("Deployment", "tailrace-autoscaler") | {"spec": {"replicas": "two"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, kubernetes_validate.latest_version(), strict=True)


def test_the_settings_have_the_specifications_name_namespace_and_labels(shared):
    ours = documents(DEPLOY / "configmap-queueing-model.yaml")[0]
    theirs = documents(shared / "data/wire_fixtures/wva_configmaps/2026-07_deploy_configmap-queueing-model.yaml")[0]
    assert ours["metadata"] == theirs["metadata"]
    assert yaml.safe_load(ours["data"]["default"]) == yaml.safe_load(theirs["data"]["default"])


def test_the_kustomization_lists_files_that_are_there():
    listed = documents(DEPLOY / "kustomization.yaml")[0]["resources"]
    assert listed and all((DEPLOY / name).is_file() for name in listed)


def test_names_and_ports_agree():
    deployment = named("Deployment", "tailrace-autoscaler")["spec"]["template"]["spec"]
    account = named("ServiceAccount", "tailrace-autoscaler")["metadata"]
    assert deployment["serviceAccountName"] == account["name"] and account["namespace"] == NAMESPACE
    config = yaml.safe_load(named("ConfigMap", "tailrace-autoscaler")["data"]["autoscaler.yaml"])
    ports = {port["name"]: port["containerPort"] for port in deployment["containers"][0]["ports"]}
    assert config["metrics"]["listen"].endswith(f":{ports['metrics']}")
    assert config["keda"]["listen"].endswith(f":{ports['keda']}")
    assert config["settings"]["config_map"] == "wva-queueing-model-config"
    rules = named("Role", "tailrace-autoscaler")["rules"]
    granted = {name for rule in rules for name in rule.get("resourceNames", [])}
    assert {config["settings"]["config_map"], config["state"]["config_map"], "tailrace-autoscaler"} == granted


@pytest.mark.parametrize("path", sorted((DEPLOY / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_annotated_examples_say_which_model_they_scale(path):
    for document in documents(path):
        notes = document["metadata"].get("annotations", {})
        if document["kind"] in ("HorizontalPodAutoscaler", "ScaledObject"):
            assert notes["llm-d.ai/managed"] == "true" and notes["llm-d.ai/model-id"]
            assert float(notes["llm-d.ai/variant-cost"]) >= 0
        if document["kind"] == "Deployment":
            assert notes["tailrace.dev/model-id"]
            assert int(notes["tailrace.dev/min-replicas"]) <= int(notes["tailrace.dev/max-replicas"])


def test_the_hpa_reads_the_desired_replicas_of_its_own_variant():
    hpa = named("HorizontalPodAutoscaler", "llama-h100")
    metric = hpa["spec"]["metrics"][0]["external"]
    assert metric["metric"]["name"] == "wva_desired_replicas"
    assert metric["metric"]["selector"]["matchLabels"]["variant_name"] == hpa["metadata"]["name"]
    assert metric["target"] == {"type": "AverageValue", "averageValue": "1"}
