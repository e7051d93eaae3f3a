"""The chart, rendered by the real helm; what its tests share."""
import functools
import json
import pathlib
import subprocess

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/helm"
CHART = ROOT / "helm/lynx"
TOOLS = ROOT / "build/helm"
BINARIES = ROOT / "build/cpu/bin"
SERVICES = ("router", "prefill", "decode")
CASES = sorted((HERE / "cases").glob("*.yaml"))

# Values that belong to a case beside its file: the two that the chart brings itself.
SHIPPED = {"cpu": "values-cpu.yaml", "h200": "values-h200.yaml"}


class HelmError(Exception):
    pass


def run_helm(*words, helm="helm4"):
    done = subprocess.run([TOOLS / helm, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise HelmError(done.stderr + done.stdout)
    return done.stdout


def value_flags(case: pathlib.Path):
    shipped = SHIPPED.get(case.stem)
    flags = ["--values", CHART / shipped] if shipped else []
    return [*flags, "--values", case]


def kube_version(case: pathlib.Path):
    """A case may ask for another one in its first line: # kube 1.27.0"""
    first = case.read_text().splitlines()[0].split()
    return first[2] if first[:2] == ["#", "kube"] else "1.34.0"


def template(*flags, helm="helm4", kube="1.34.0"):
    return run_helm("template", "lynx", CHART, "--namespace", "serving", "--kube-version", kube, *flags, helm=helm)


@functools.cache
def render_text(case: pathlib.Path, helm="helm4"):
    return template(*value_flags(case), helm=helm, kube=kube_version(case))


def parse(text):
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


@functools.cache
def render(case: pathlib.Path):
    return parse(render_text(case))


def notes(*flags):
    return run_helm("install", "lynx", CHART, "--namespace", "serving", "--dry-run=client", *flags).split("NOTES:\n")[1]


def of_kind(documents, *kinds):
    return [document for document in documents if document["kind"] in kinds]


def workloads(documents):
    """The router's and workers' Deployments and StatefulSets by component."""
    return {document["metadata"]["labels"]["app.kubernetes.io/component"]: document
            for document in of_kind(documents, "Deployment", "StatefulSet")}


def pod(workload):
    return workload["spec"]["template"]["spec"]


def container(workload):
    (only,) = pod(workload)["containers"]
    return only


def config_text(documents, service):
    for document in of_kind(documents, "ConfigMap"):
        if f"{service}.yaml" in document["data"]:
            return document["data"][f"{service}.yaml"]
    raise KeyError(service)


def copied_files():
    """What the chart carries a copy of, as copy: original. Helm packages nothing outside the chart's own folder."""
    out = {}
    for original in sorted((ROOT / "deploy/grafana").glob("*.json")):
        out[CHART / "files/dashboards" / original.name] = original
    for pattern in ("*rules*.yml", "*rules*.yaml", "*alerts*.yml", "*alerts*.yaml"):
        for original in sorted((ROOT / "deploy/prometheus").glob(pattern)):
            if "groups" in (yaml.load(original.read_text(), Loader=yaml.CSafeLoader) or {}):
                out[CHART / "files/rules" / original.name] = original
    return out


def golden_text(case: pathlib.Path):
    """The rendering less what is checked elsewhere and would only make the snapshot long: copied files."""
    documents = parse(render_text(case))
    for document in documents:
        if document["kind"] == "PrometheusRule":
            document["spec"] = "copied files"
        elif document["kind"] == "ConfigMap" and "-dashboard-" in document["metadata"]["name"]:
            document["data"] = "copied files"
    return yaml.dump_all(documents, Dumper=yaml.CSafeDumper, sort_keys=False, width=120)


def load_json(path):
    return json.loads(pathlib.Path(path).read_text())
