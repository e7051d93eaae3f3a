"""Every case of cases/: lints, renders alike with helm 3 and 4, equals its snapshot, and fits the Kubernetes schemas and
the published shapes of the custom resources. Field report 20: a list typed as an object, a field that is not one."""
import functools
import json

import jsonschema
import kubernetes_validate.utils as kubernetes
import pytest

import chart

CUSTOM = {path.stem: chart.load_json(path) for path in (chart.HERE / "crds").glob("*.json")}
kubernetes.schema_contents = functools.cache(kubernetes.schema_contents)  # it reads 2 MB for every document

cases = pytest.mark.parametrize("case", chart.CASES, ids=lambda case: case.stem)


@cases
@pytest.mark.parametrize("helm", ["helm3", "helm4"])
def test_lints(case, helm):
    chart.run_helm("lint", "--strict", chart.CHART, *chart.value_flags(case), helm=helm)


@cases
def test_helm_3_and_4_render_the_same(case):
    assert chart.parse(chart.render_text(case, "helm3")) == chart.render(case)


@cases
def test_equals_its_snapshot(case):
    golden = chart.HERE / "golden" / case.name
    assert chart.golden_text(case) == golden.read_text(), "meant? tests/helm/run --update, then look at the difference"


def test_there_is_no_snapshot_without_a_case():
    assert [path.name for path in sorted((chart.HERE / "golden").iterdir())] == [case.name for case in chart.CASES]


def check_schema(document, version):
    custom = CUSTOM.get(document["kind"].lower())
    if custom is not None:
        jsonschema.validate(document, custom)
    else:
        kubernetes.validate(document, version, strict=True)


@cases
def test_fits_the_schemas(case):
    documents = chart.render(case)
    assert len(documents) > 15
    for document in documents:
        for version in {chart.kube_version(case), "1.34"}:
            check_schema(document, version)


def test_the_schemas_find_what_field_reports_found():
    """A list typed as an object, a misspelt field: the check above must see these."""
    case = next(case for case in chart.CASES if case.stem == "everything")
    documents = chart.render(case)
    (claim,) = chart.of_kind(documents, "StatefulSet")
    for spoil in ({"tolerations": {"key": "x"}}, {"terminationGracePeriodSecond": 3}, {"volumes": {"name": "a"}}):
        broken = {**claim, "spec": {**claim["spec"], "template": {
            **claim["spec"]["template"], "spec": {**chart.pod(claim), **spoil}}}}
        with pytest.raises(jsonschema.ValidationError):
            check_schema(broken, "1.34")
    (scaled, _) = chart.of_kind(documents, "ScaledObject")
    with pytest.raises(jsonschema.ValidationError):
        check_schema({**scaled, "spec": {**scaled["spec"], "triggers": {"type": "prometheus"}}}, "1.34")


def test_the_cases_render_every_kind_that_the_chart_knows():
    kinds = {document["kind"] for case in chart.CASES for document in chart.render(case)}
    assert kinds == {"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Ingress", "NetworkPolicy", "Pod",
                     "PodDisruptionBudget", "PodMonitor", "PrometheusRule", "ScaledObject", "Secret", "Service",
                     "ServiceAccount", "ServiceMonitor", "StatefulSet"}


def test_packages():
    """What a registry would get holds the files that templates read."""
    out = chart.TOOLS / "package"
    printed = chart.run_helm("package", chart.CHART, "--destination", out)
    archive = printed.strip().rsplit(": ", 1)[1]
    rendered = chart.run_helm("template", "lynx", archive, "--namespace", "serving", "--kube-version", "1.34.0",
                              *chart.value_flags(chart.HERE / "cases/everything.yaml"))
    assert chart.parse(rendered) == chart.render(chart.HERE / "cases/everything.yaml")


def test_copied_files_equal_their_originals():
    """PrometheusRule and dashboards are deploy/prometheus and deploy/grafana, byte for byte."""
    copies = chart.copied_files()
    carried = {path for folder in ("dashboards", "rules") for path in (chart.CHART / "files" / folder).glob("[!.]*")}
    assert carried == set(copies), "tests/helm/run --update copies them"
    for copy, original in copies.items():
        assert copy.read_bytes() == original.read_bytes(), f"tests/helm/run --update copies {original}"


def test_rules_and_dashboards_arrive_as_they_are():
    documents = chart.render(chart.HERE / "cases/everything.yaml")
    copies = chart.copied_files()
    groups = [group for copy in sorted(copies) if copy.parent.name == "rules"
              for group in chart.parse(copy.read_text())[0]["groups"]]
    (rule,) = chart.of_kind(documents, "PrometheusRule")
    assert groups and rule["spec"]["groups"] == groups
    data = {name: text for document in chart.of_kind(documents, "ConfigMap")
            if document["metadata"]["labels"].get("grafana_dashboard") == "1"
            for name, text in document["data"].items()}
    boards = [copy for copy in copies if copy.parent.name == "dashboards"]
    assert len(boards) == len(data) == 3
    for copy in boards:
        assert json.loads(data[copy.name]) == chart.load_json(copy)
