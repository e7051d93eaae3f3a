"""What the rendered objects promise an operator: probes of three meanings, drains, selectors that select, no more rights
than needed. Field reports 17, 18 and 20."""
import pytest

import chart

cases = pytest.mark.parametrize("case", chart.CASES, ids=lambda case: case.stem)


def path_of(probe):
    return probe["httpGet"]["path"]


@cases
def test_three_probes_with_three_meanings(case):
    for component, workload in chart.workloads(chart.render(case)).items():
        container = chart.container(workload)
        startup, live, ready = (container[f"{kind}Probe"] for kind in ("startup", "liveness", "readiness"))
        assert (path_of(startup), path_of(live), path_of(ready)) == ("/health/startup", "/health/live", "/health/ready")
        ports = {port["name"] for port in container["ports"]}
        assert {probe["httpGet"]["port"] for probe in (startup, live, ready)} <= ports
        # Loading may take as long as it is said to, whatever liveness would think of it.
        values_allow = startup["periodSeconds"] * startup["failureThreshold"]
        assert values_allow >= (60 if component == "router" else 300)
        # A hung loop goes within a minute; one slow answer is no reason to.
        assert 15 <= live["periodSeconds"] * live["failureThreshold"] <= 60
        # Readiness takes a pod out of the Service sooner than liveness would kill it.
        assert ready["periodSeconds"] * ready["failureThreshold"] < live["periodSeconds"] * live["failureThreshold"]


def seconds(text):
    assert text.endswith("s")
    return int(text[:-1])


def pause_of(workload):
    hook = chart.container(workload)["lifecycle"]["preStop"]
    return int(hook["sleep"]["seconds"] if "sleep" in hook else hook["exec"]["command"][1])


@cases
def test_the_whole_drain_comes_from_one_value(case):
    documents = chart.render(case)
    for component, workload in chart.workloads(documents).items():
        grace = chart.pod(workload)["terminationGracePeriodSeconds"]
        shutdown = seconds(chart.parse(chart.config_text(documents, component))[0]["shutdown_grace"])
        pause = pause_of(workload)
        assert 1 <= pause <= 15
        # Killed only after the pause, the process's own grace, and time for its last words (1.1 s) and exit.
        assert pause + shutdown + 5 == grace
        assert shutdown > grace / 2


@pytest.mark.parametrize("grace", [15, 20, 39, 40, 120, 299, 300, 301, 640, 3600])
def test_any_grace_period_leaves_most_of_itself_to_the_requests(grace):
    documents = chart.parse(chart.template("--set", f"decode.terminationGracePeriodSeconds={grace}"))
    workload = chart.workloads(documents)["decode"]
    shutdown = seconds(chart.parse(chart.config_text(documents, "decode"))[0]["shutdown_grace"])
    assert pause_of(workload) + shutdown + 5 == chart.pod(workload)["terminationGracePeriodSeconds"] == grace
    assert shutdown >= 0.6 * grace - 1


def test_services_reach_pods_before_they_are_ready():
    """A router is ready when workers have come, and workers find it by this name: it must be there before."""
    for case in chart.CASES:
        headless = [service for service in chart.of_kind(chart.render(case), "Service")
                    if service["spec"].get("clusterIP") == "None"]
        assert len(headless) == 3
        assert all(service["spec"]["publishNotReadyAddresses"] for service in headless)


def selects(selector, labels):
    return selector.items() <= labels.items()


@cases
def test_selectors_select(case):
    """Services, budgets, spread and monitors name labels that exactly the pods they mean have."""
    documents = chart.render(case)
    pods = {component: workload["spec"]["template"]["metadata"]["labels"]
            for component, workload in chart.workloads(documents).items()}
    assert set(pods) == set(chart.SERVICES)

    def selected(selector):
        return [component for component, labels in pods.items() if selects(selector, labels)]

    for component, workload in chart.workloads(documents).items():
        assert selected(workload["spec"]["selector"]["matchLabels"]) == [component]
        for spread in chart.pod(workload).get("topologySpreadConstraints", []):
            assert selected(spread["labelSelector"]["matchLabels"]) == [component]
        if workload["kind"] == "StatefulSet":
            assert workload["spec"]["serviceName"] in names(documents, "Service")
    for service in chart.of_kind(documents, "Service"):
        component = service["metadata"]["labels"]["app.kubernetes.io/component"]
        assert selected(service["spec"]["selector"]) == [component]
        container = chart.container(chart.workloads(documents)[component])
        for port in service["spec"]["ports"]:
            assert port["targetPort"] in {port["name"] for port in container["ports"]}
    for budget in chart.of_kind(documents, "PodDisruptionBudget"):
        assert len(selected(budget["spec"]["selector"]["matchLabels"])) == 1
    for policy in chart.of_kind(documents, "NetworkPolicy"):
        assert len(selected(policy["spec"]["podSelector"]["matchLabels"])) == 1
    for monitor in chart.of_kind(documents, "PodMonitor"):
        assert len(selected(monitor["spec"]["selector"]["matchLabels"])) == 1


def names(documents, *kinds):
    return {document["metadata"]["name"] for document in chart.of_kind(documents, *kinds)}


@cases
def test_references_lead_somewhere(case):
    documents = chart.render(case)
    given = set()
    if case.stem == "init_container":
        given = {"shared", "clients"}
    elif case.stem == "h200":
        given = {"lynx-cluster"}
    elif case.stem == "everything":
        given = {"api-tls"}
    for workload in chart.workloads(documents).values():
        volumes = chart.pod(workload)["volumes"]
        assert {mount["name"] for mount in chart.container(workload)["volumeMounts"]} == {v["name"] for v in volumes}
        assert {v["configMap"]["name"] for v in volumes if "configMap" in v} <= names(documents, "ConfigMap")
        secrets = {v["secret"]["secretName"] for v in volumes if "secret" in v}
        assert secrets <= names(documents, "Secret") | given
        account = chart.pod(workload)["serviceAccountName"]
        assert account in names(documents, "ServiceAccount") | {"serving"}
    for scaled in chart.of_kind(documents, "ScaledObject", "HorizontalPodAutoscaler"):
        target = scaled["spec"]["scaleTargetRef"]
        (workload,) = [w for w in chart.of_kind(documents, target["kind"]) if w["metadata"]["name"] == target["name"]]
        assert "replicas" not in workload["spec"], "an autoscaler's number would be undone at every upgrade"


@cases
def test_no_more_rights_than_needed(case):
    for document in chart.of_kind(chart.render(case), "Deployment", "StatefulSet", "Pod"):
        spec = document["spec"] if document["kind"] == "Pod" else chart.pod(document)
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"] + spec.get("initContainers", []):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] and context["allowPrivilegeEscalation"] is False
            assert context["capabilities"]["drop"] == ["ALL"]
            assert set(context["capabilities"].get("add", [])) <= {"IPC_LOCK"}


def test_devices_are_asked_for():
    workers = chart.workloads(chart.render(chart.HERE / "cases/everything.yaml"))
    assert chart.container(workers["prefill"])["resources"]["limits"]["nvidia.com/mig-3g.71gb"] == 2
    limits = chart.container(workers["decode"])["resources"]["limits"]
    assert (limits["nvidia.com/gpu"], limits["nvidia.com/rdma_shared"]) == (1, 2)
    assert chart.container(workers["decode"])["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    assert "add" not in chart.container(workers["prefill"])["securityContext"]["capabilities"]


def test_labels_that_others_select_on_are_labels():
    documents = chart.render(chart.HERE / "cases/everything.yaml")
    for document in chart.of_kind(documents, "PodMonitor", "PrometheusRule"):
        assert document["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    for document in documents:
        labels, annotations = document["metadata"]["labels"], document["metadata"].get("annotations", {})
        assert labels["team"] == "inference" and annotations["owner"] == "inference@example.com"
        assert not set(labels) & set(annotations)
