"""The rendered ConfigMaps and the schema against the real binaries: they are the ones that read the settings."""
import subprocess

import pytest
import yaml

import chart
import settings

pairs = pytest.mark.parametrize("case, service", [(case, service) for case in chart.CASES for service in chart.SERVICES],
                                ids=lambda it: getattr(it, "stem", it))


def run_service(service, text, tmp_path, *flags):
    path = tmp_path / f"{service}.yaml"
    path.write_text(text)
    return subprocess.run([chart.BINARIES / f"lynx-{service}", "--config", path, *flags, "--print-config"],
                          capture_output=True, text=True)


def leaves(values, path=""):
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def as_milliseconds(text):
    for suffix, factor in (("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)):
        if text.endswith(suffix):
            return float(text[:-len(suffix)]) * factor
    return float(text)


def same(given, read):
    if isinstance(read, str) and read.endswith("ms") and read[:-2].isdigit():
        return as_milliseconds(str(given)) == as_milliseconds(read)
    return given == read


def flags_of(case, service):
    """What the pod's command line adds, with the values that Kubernetes would put in."""
    args = chart.container(chart.workloads(chart.render(case))[service])["args"][1:]
    return [word.replace("$(POD_NAME)", "pod-0").replace("$(CPU_LIMIT)", "3") for word in args]


@pairs
def test_the_service_reads_what_the_chart_wrote(case, service, tmp_path):
    text = chart.config_text(chart.render(case), service)
    done = run_service(service, text, tmp_path, *flags_of(case, service))
    assert done.returncode == 0, done.stderr
    read = dict(leaves(yaml.safe_load(done.stdout)))
    for path, given in leaves(yaml.safe_load(text)):
        assert same(given, read[path]), f"{path}: the chart says {given!r}, the service reads {read[path]!r}"
    if service != "router":
        assert read["worker.name"] == "pod-0"
        assert read["threads"] == (4 if (case.stem, service) == ("everything", "prefill") else 3)


@pairs
def test_the_service_accepts_it(case, service, tmp_path):
    """Beyond reading: validated at start-up. Only the model, which is not here, may be missing."""
    text = chart.config_text(chart.render(case), service)
    path = tmp_path / f"{service}.yaml"
    path.write_text(text)
    done = subprocess.run([chart.BINARIES / f"lynx-{service}", "--config", path, "--model.path", tmp_path / "no-model"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    assert "no-model" in done.stderr, done.stderr


@pairs
def test_a_drain_outlasts_the_longest_request(case, service, tmp_path):
    """Field report 18, with the figures that the services themselves use."""
    if case.stem == "old_cluster":
        return  # short on purpose; the notes warn of it
    documents = chart.render(case)
    read = {s: dict(leaves(yaml.safe_load(run_service(s, chart.config_text(documents, s), tmp_path).stdout)))
            for s in ("router", service)}
    longest = max(as_milliseconds(value) for path, value in read["router"].items() if path.endswith(".deadline"))
    grace = as_milliseconds(read[service]["shutdown_grace"])
    if service == "prefill":  # has one push to finish, and the prompt before it
        assert grace >= 3 * as_milliseconds(read[service]["prefill.push_timeout"])
    else:
        assert grace >= longest


def test_the_schema_knows_every_setting():
    schema = chart.load_json(chart.CHART / "values.schema.json")
    for name, definition in settings.definitions().items():
        assert schema["definitions"][name] == definition, f"{name}: tests/helm/run --update writes it anew"


def test_defaults_of_the_chart_are_those_of_the_router():
    """NOTES.txt reckons with the default deadlines."""
    read = dict(leaves(yaml.safe_load(settings.printed("router"))))
    assert [as_milliseconds(read[f"slo.{name}.deadline"]) for name in ("interactive", "standard", "batch")] == [
        60_000, 120_000, 600_000]
