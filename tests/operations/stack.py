"""The processes of deploy/local/run under load, scraped every second by a real Prometheus that has our rules loaded."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build/operations/stack"
LOAD_SECONDS = 25
PATIENCE = 300  # seconds; for what must come on any machine, however crowded: it only ends what hangs


def eventually(condition):
    """Waits until it holds; false when it never does."""
    deadline = time.monotonic() + PATIENCE
    while not (held := condition()) and time.monotonic() < deadline:
        time.sleep(0.3)
    return held


class Prometheus:
    """Its HTTP API."""

    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, path, **arguments):
        query = urllib.parse.urlencode(arguments, doseq=True)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=PATIENCE) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {arguments}: {json.load(error)['error']}") from error

    def instant(self, expr, at):
        return self.ask("query", query=expr, time=at)["result"]

    def range(self, expr, start, end, step=1):
        return self.ask("query_range", query=expr, start=start, end=end, step=step)["result"]

    def numbers(self, expr, at):
        return [float(series["value"][1]) for series in self.instant(expr, at)]

    def number(self, expr, at):
        (only,) = self.numbers(expr, at)
        return only


class Stack:
    """What the tests look at when the load is over. Prometheus still runs; Lynx too."""

    def __init__(self, base, prometheus, start, end, result):
        self.base, self.prometheus, self.start, self.end, self.result = base, prometheus, start, end, result

    def metrics_text(self, offset):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.base + offset}/metrics", timeout=PATIENCE) as reply:
            return reply.read().decode()

    def pid(self, name):
        return int(re.search(rf"{name} \(pid (\d+)\)", (OUT / "run.log").read_text())[1])

    def until(self, expr, value):
        """Waits until the expression has the value now; false when it never has."""
        return eventually(lambda: self.prometheus.numbers(expr, time.time()) == [value])


def free_base():
    """A port from which the five that deploy/local/run takes, and one for Prometheus, are free."""
    for base in range(21000, 29000, 50):
        with contextlib.ExitStack() as held:
            try:
                for offset in (0, 1, 11, 12, 13, 20):
                    held.enter_context(socket.create_server(("127.0.0.1", base + offset)))
                return base
            except OSError:
                continue
    raise RuntimeError("no free ports")


def wait_for(url, what, process):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, f"{what} ended early: see {OUT}"
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(url, timeout=30) as reply:
                if reply.status == 200:
                    return
        time.sleep(0.2)
    raise AssertionError(f"{what} is not ready after {PATIENCE} s: see {OUT}")


@contextlib.contextmanager
def running(command, log, **environment):
    with (OUT / log).open("w") as out:
        process = subprocess.Popen([str(word) for word in command], cwd=ROOT, stdout=out, stderr=out,
                                   env={**os.environ, **environment})
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        process.kill()
        process.wait()


def write_configuration(base):
    """Our prometheus.yml and rules as they are, but for the ports, and every interval a second."""
    hurry = lambda text: re.sub(r"(interval): \d+[sm]", r"\1: 1s", text)
    source = ROOT / "deploy/prometheus"
    for rules in source.glob("*.rules.yml"):
        (OUT / rules.name).write_text(hurry(rules.read_text()))
    text = hurry((source / "prometheus.yml").read_text())
    text = re.sub(r"127\.0\.0\.1:(80\d\d)", lambda port: f"127.0.0.1:{int(port[1]) - 8000 + base}", text)
    path = OUT / "prometheus.yml"
    path.write_text(text)
    return path


def provoke_a_refusal(base):
    """One request that is wrong, so that a panel by status has two lines."""
    request = urllib.request.Request(f"http://127.0.0.1:{base}/v1/completions", data=b'{"prompt": 7}')
    with contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(request, timeout=PATIENCE)


def load(base):
    result = OUT / "result.json"
    metrics = ",".join(f"127.0.0.1:{base + offset}" for offset in (11, 12, 13))
    command = ["build/cpu/bin/lynx-replay", "--target", f"127.0.0.1:{base}", "--tokenizer", "deploy/model/tokenizer.json",
               "--metrics", metrics, "--result", result, "--seed", "7", "--synthetic.duration", LOAD_SECONDS,
               "--synthetic.rate", "8", "--synthetic.burst", "2", "--synthetic.on", "5", "--synthetic.off", "5",
               "--synthetic.output-median", "120", "--receipts"]
    with (OUT / "replay.log").open("w") as log:
        done = subprocess.run([str(word) for word in command], cwd=ROOT, stdout=log, stderr=log, timeout=2 * PATIENCE)
    assert done.returncode == 0, (OUT / "replay.log").read_text()
    return json.loads(result.read_text())


@contextlib.contextmanager
def loaded_stack():
    OUT.mkdir(parents=True, exist_ok=True)
    base = free_base()
    port = base + 20
    data = OUT / f"data-{os.getpid()}"
    prometheus = ["prometheus", f"--config.file={write_configuration(base)}", f"--storage.tsdb.path={data}",
                  f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    # auto: on a machine without RDMA UCX falls back to TCP, and an alert must say so.
    environment = {"LYNX_API_PORT": str(base), "LYNX_OUT": str(OUT), "LYNX_TRANSPORT": "auto",
                   "LYNX_DRIFT_EVERY": "16"}  # a load of seconds, and each panel of the drift guard needs its points
    with running(["deploy/local/run", "--serve"], "run.log", **environment) as lynx:
        wait_for(f"http://127.0.0.1:{base}/health/ready", "Lynx", lynx)
        with running(prometheus, "prometheus.log") as process:
            wait_for(f"http://127.0.0.1:{port}/-/ready", "Prometheus", process)
            asked = Prometheus(port)
            # Every target scraped before the load: rates need a value to rise from.
            scraped = "count(count_over_time(lynx_build_info[1m]) >= 3)"
            assert eventually(lambda: asked.numbers(scraped, time.time()) == [4]), "not every process is scraped"
            start = time.time()
            provoke_a_refusal(base)
            result = load(base)
            # And once more after it, the rules evaluated, too.
            scraped, ended = "count(timestamp(lynx_build_info) > {0:f})", time.time()
            assert eventually(lambda: asked.numbers(scraped.format(ended), time.time()) == [4])
            time.sleep(3)
            yield Stack(base, asked, start, time.time(), result)
    subprocess.run(["rm", "-rf", data], check=True)
