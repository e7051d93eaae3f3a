"""lynx-probe against a real router: what health checks and `helm test` rely on."""
import contextlib
import os
import socket
import subprocess
import time

import pytest

import chart

PROBE = chart.ROOT / "deploy/docker/lynx-probe"
PATIENCE = 300  # seconds; it only ends what hangs


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def probe(*words, **environment):
    return subprocess.run([PROBE, *words], capture_output=True, text=True,
                          env={**os.environ, "LYNX_PROBE_TIMEOUT": str(PATIENCE), **environment})


@contextlib.contextmanager
def router(tmp_path, *flags):
    port = free_port()
    log = tmp_path / "router.log"
    with log.open("w") as out:
        process = subprocess.Popen([chart.BINARIES / "lynx-router", "--model.path", chart.ROOT / "deploy/model",
                                    "--model.name", "mini", "--http.port", str(port), "--control.port",
                                    str(free_port()), *flags], stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_succeeds_on_200_alone(tmp_path):
    with router(tmp_path) as port:
        alive = probe(f"http://127.0.0.1:{port}/health/live")
        assert alive.returncode == 0 and "alive" in alive.stdout
        not_ready = probe(f"http://127.0.0.1:{port}/health/ready")
        assert not_ready.returncode == 1 and "answers 503" in not_ready.stderr
        assert "error" in not_ready.stdout, "the body says why"
        assert probe(f"http://localhost:{port}/nowhere").returncode == 1


def test_posts_json_and_an_api_key(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# of tests\nsesame\nother\n")
    with router(tmp_path, "--http.api_keys_file", keys) as port:
        url = f"http://127.0.0.1:{port}/v1"
        assert "answers 401" in probe(f"{url}/models").stderr
        models = probe(f"{url}/models", LYNX_API_KEYS_FILE=str(keys))
        assert models.returncode == 0 and '"mini"' in models.stdout
        wrong = probe(f"{url}/completions", '{"model": "mini", "prompt": "é", "max_tokens": -1}',
                      LYNX_API_KEYS_FILE=str(keys))
        assert "answers 400" in wrong.stderr and "max_tokens" in wrong.stdout


def test_speaks_https(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                    "-days", "1", "-subj", "/CN=lynx"], check=True, capture_output=True)
    with router(tmp_path, "--http.tls_certificate_file", certificate, "--http.tls_key_file", key) as port:
        assert "alive" in probe(f"https://127.0.0.1:{port}/health/live").stdout
        assert probe(f"http://127.0.0.1:{port}/health/live").returncode != 0


@pytest.mark.parametrize("url", ["127.0.0.1:8000/health", "ftp://host/", ""])
def test_says_what_a_url_is(url):
    done = probe(url)
    assert done.returncode == 2 and "is not http://host" in done.stderr


def test_gives_up_in_time(tmp_path):
    assert probe(f"http://127.0.0.1:{free_port()}/health/live").returncode == 1
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        done = probe(f"http://127.0.0.1:{silent.getsockname()[1]}/", LYNX_PROBE_TIMEOUT="1")
        assert done.returncode == 124 and "no answer within 1 s" in done.stderr
