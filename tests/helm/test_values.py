"""values.schema.json: wrong types and unknown keys are refused, and it knows every value that the chart has."""
import pytest

import chart

WRONG = [
    ("router.replica=2", "replica"),
    ("routers.replicas=2", "routers"),
    ("router.replicas=two", "integer"),
    ("router.replicas=-1", "minimum"),
    ("decode.kind=DaemonSet", "StatefulSet"),
    ("decode.tolerations.key=x", "array"),
    ("decode.nodeSelector={a,b}", "object"),
    ("decode.terminationGracePeriodSeconds=10m", "integer"),
    ("decode.terminationGracePeriodSeconds=10", "minimum"),
    ("decode.config.lynx.polcy=off", "polcy"),
    ("decode.config.max_batch=many", "integer"),
    ("decode.config.max_batch=1.5", "integer"),
    ("decode.config.shutdown_grace=5s", "shutdown_grace"),
    ("decode.config.lease_timeout=soon", "lease_timeout"),
    ("decode.config.routers={a:1}", "routers"),
    ("prefill.config.lynx.policy=off", "lynx"),
    ("prefill.config.prefill.chunk_tokens=true", "integer"),
    ("workers.config.prefill.chunk_tokens=256", "prefill"),
    ("workers.config.ucx.checksum=1", "boolean"),
    ("router.config.http.port=80", "port"),
    ("router.config.slo.gold.ttft=1s", "gold"),
    ("model.source=s3", "persistentVolumeClaim"),
    ("model.path=models/mini", "pattern"),
    ("image.digest=latest", "pattern"),
    ("prefill.resources.limit.cpu=2", "limit"),
    ("prefill.gpu=1", "object"),
    ("keda.decode.objective=99", "objective"),
    ("monitoring.podMonitor=true", "object"),
    ("networkPolicy.apiFrom.podSelector=x", "array"),
    ("tls.secretName=x", "secretName"),
    ("apiKeys.values={two words}", "pattern"),
]


@pytest.mark.parametrize("helm", ["helm3", "helm4"])
@pytest.mark.parametrize("flag, word", WRONG, ids=[flag for flag, _ in WRONG])
def test_refuses(flag, word, helm):
    with pytest.raises(chart.HelmError) as refused:
        chart.template("--set", flag, helm=helm)
    key = flag.split("=")[0].split(".")[-1]
    message = str(refused.value)
    assert word in message or key in message, message
    assert "schema" in message or "additional" in message.lower(), message


MISSING = [
    ("model.source=persistentVolumeClaim", "model.persistentVolumeClaim.claimName"),
    ("model.source=hostPath", "model.hostPath.path"),
    ("model.source=initContainer", "model.initContainer.command"),
    ("keda.decode.enabled=true", "keda.prometheusAddress"),
    ("monitoring.podMonitor.enabled=true,monitoring.serviceMonitor.enabled=true", "enable one"),
]


@pytest.mark.parametrize("flag, word", MISSING, ids=[flag for flag, _ in MISSING])
def test_says_what_is_missing(flag, word):
    with pytest.raises(chart.HelmError, match=word):
        chart.template("--set", flag)


def keys(schema, schemas, path=""):
    """Every key that the schema names, references followed; free-form objects end the walk."""
    schema = schemas[schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
    for name, inner in schema.get("properties", {}).items() if schema.get("additionalProperties") is False else []:
        yield f"{path}{name}"
        yield from keys(inner, schemas, f"{path}{name}.")


def value_keys(values, path=""):
    for name, inner in values.items():
        yield f"{path}{name}"
        if isinstance(inner, dict):
            yield from value_keys(inner, f"{path}{name}.")


def test_every_key_of_the_schema_is_in_values_yaml():
    """values.yaml is where a person looks for what there is. Settings of the services are told by their binaries, and
    fields of Kubernetes by its documentation."""
    schema = chart.load_json(chart.CHART / "values.schema.json")
    (values,) = chart.parse((chart.CHART / "values.yaml").read_text())
    there = set(value_keys(values))
    elsewhere = (".config.", ".resources.", "Triggers.", "updateStrategy.rollingUpdate.", "ingress.tls.", "global")
    missing = [key for key in keys(schema, schema["definitions"])
               if key not in there and not any(word in key for word in elsewhere)]
    assert missing == []
