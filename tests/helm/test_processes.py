"""The rendered chart as processes of this machine: the ConfigMaps, Secrets, command lines, probes, `helm test` and drain that a
cluster would use, with nothing changed but addresses and places of files."""
import base64
import contextlib
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest
import yaml

import chart

PATIENCE = 300  # seconds; it only ends what hangs


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def secret(documents, key):
    (value,) = [document["data"][key] for document in chart.of_kind(documents, "Secret") if key in document["data"]]
    return base64.b64decode(value).decode()


class Stack:
    """A router, a prefill and a decode worker from the chart's rendering with API keys."""

    def __init__(self, folder):
        self.documents = chart.parse(chart.template("--set", "clusterSecret.value=a-secret-for-tests,apiKeys.values={open,sesame}",
                                                    "--set", "prefill.config.threads=1,decode.config.threads=1"))
        self.folder = folder
        self.ports = {service: free_port() for service in chart.SERVICES}
        self.control = free_port()
        (folder / "cluster").write_text(secret(self.documents, "cluster-secret"))
        (folder / "keys").write_text(secret(self.documents, "api-keys"))
        self.processes = {service: self.start(service) for service in chart.SERVICES}

    def start(self, service):
        config = yaml.safe_load(chart.config_text(self.documents, service))
        config["model"]["path"] = str(chart.ROOT / "deploy/model")
        config["http"]["port"] = self.ports[service]
        config["control"]["secret_file"] = str(self.folder / "cluster")
        if service == "router":
            config["control"]["port"] = self.control
            config["http"]["api_keys_file"] = str(self.folder / "keys")
        else:
            config["routers"] = [f"127.0.0.1:{self.control}"]
        path = self.folder / f"{service}.yaml"
        path.write_text(yaml.safe_dump(config))
        container = chart.container(chart.workloads(self.documents)[service])
        args = [word.replace("/etc/lynx/config", str(self.folder)).replace("$(POD_NAME)", f"{service}-0")
                for word in container["args"]]
        with (self.folder / f"{service}.log").open("w") as log:
            return subprocess.Popen([chart.BINARIES / container["command"][0], *args], stdout=log, stderr=log)

    def probe(self, service, kind):
        container = chart.container(chart.workloads(self.documents)[service])
        path = container[f"{kind}Probe"]["httpGet"]["path"]
        with contextlib.suppress(OSError):
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{self.ports[service]}{path}", timeout=60).status
            except urllib.error.HTTPError as refused:
                return refused.code
        return None

    def wait(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            dead = [service for service, process in self.processes.items() if process.poll() is not None]
            assert not dead and time.monotonic() < deadline, self.logs()
            time.sleep(0.05)

    def logs(self):
        return "\n".join(f"== {path.name}\n{path.read_text()}" for path in sorted(self.folder.glob("*.log")))

    def stop(self, service):
        self.processes[service].terminate()
        return self.processes[service].wait(PATIENCE)


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    stack = Stack(tmp_path_factory.mktemp("stack"))
    try:
        stack.wait(lambda: all(stack.probe(service, "readiness") == 200 for service in chart.SERVICES))
        yield stack
    finally:
        for process in stack.processes.values():
            process.kill()
            process.wait()


def test_every_probe_is_answered(stack):
    """Field report 17."""
    answers = {(service, kind): stack.probe(service, kind)
               for service in chart.SERVICES for kind in ("startup", "liveness", "readiness")}
    assert set(answers.values()) == {200}, answers


def test_helm_test_passes(stack):
    (pod,) = chart.of_kind(stack.documents, "Pod")
    (container,) = pod["spec"]["containers"]
    shell, flags, script = container["command"]
    script, changed = re.subn(r"^url=.*$", f"url=http://127.0.0.1:{stack.ports['router']}", script, flags=re.M)
    assert changed == 1
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    environment["LYNX_API_KEYS_FILE"] = str(stack.folder / "keys")  # mounted there by the pod
    path = f"{chart.ROOT / 'deploy/docker'}:{os.environ['PATH']}"
    done = subprocess.run([shell, flags, script], capture_output=True, text=True, env={**environment, "PATH": path})
    assert done.returncode == 0, done.stdout + done.stderr + stack.logs()
    assert '"lynx-mini"' in done.stdout and '"completion_tokens":8' in done.stdout.replace(" ", "")
    # And it can fail: without a key nothing answers.
    environment.pop("LYNX_API_KEYS_FILE")
    assert subprocess.run([shell, flags, script], capture_output=True, env={**environment, "PATH": path}).returncode != 0


def test_a_lost_worker_is_no_reason_to_restart_a_router_but_to_leave_it_out(stack):
    assert stack.stop("decode") == 0
    deadline = time.monotonic() + PATIENCE
    while stack.probe("router", "readiness") == 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert stack.probe("router", "readiness") == 503
    assert stack.probe("router", "liveness") == stack.probe("router", "startup") == 200


def test_sigterm_ends_the_rest_well(stack):
    assert [stack.stop(service) for service in ("prefill", "router")] == [0, 0]
