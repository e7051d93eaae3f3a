"""What deploy/local/compare refuses before it starts a process, and that it leaves none."""
import os
import pathlib
import signal
import subprocess
import time

import pytest

import stack

WRONG = [
    (["off", "lynx", "--trace", "nowhere.csv"], "--trace: nowhere.csv: No such file"),
    (["off", "lynx", "--synthetic.rate", "0"], "--synthetic.rate: expected"),
    (["off", "lynx", "--warmup", "1s"], "unknown argument '--warmup', did you mean '--warm-up'?"),
    (["off", "lynx", "--target", "127.0.0.1:1"], "--target: At Most 1"),  # which the script gives
    (["lynx", "lynx"], "two different policies, not lynx twice"),
    (["--placment", "least_loaded", "expert_affinity"], "'--placment' is no policy"),
    (["off"], "--placement least_loaded expert_affinity"),  # the usage
    (["--placement", "least_loaded", "expert_affinity", "--topics", "nowhere.json"], "--topics: nowhere.json: cannot be read"),
]


def environment_of(folder, **more):
    return {**os.environ, "LYNX_OUT": str(folder), "LYNX_API_PORT": str(stack.free_base()), **more}


def compare(folder, *words, **environment):
    return subprocess.run(["deploy/local/compare", *words], cwd=stack.ROOT, env=environment_of(folder, **environment),
                          capture_output=True, text=True, timeout=stack.PATIENCE)


@pytest.mark.parametrize("words, said", WRONG, ids=lambda value: value if isinstance(value, str) else None)
def test_together_checks_its_options_before_it_starts(tmp_path, words, said):
    done = compare(tmp_path, "--together", *words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not list(tmp_path.iterdir()), "the folders of the two sides, which are made when their processes start"


@pytest.mark.parametrize("variable, value", [("LYNX_API_PORT", "http"), ("LYNX_DECODE_WORKERS", "0")])
def test_its_variables_are_checked(tmp_path, variable, value):
    done = compare(tmp_path, "--placement", "least_loaded", "expert_affinity", **{variable: value})
    assert done.returncode == 2
    assert done.stderr.startswith(f"compare: {variable}: expected ") and f"got '{value}'" in done.stderr


def test_help_is_no_error(tmp_path):
    done = compare(tmp_path, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Two policies") and "set -euo" not in done.stdout


def processes_of(session):
    """Ids and names; those that have ended and wait for their parents are no more."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = entry.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        state, _, _, of_session = rest.split()[:4]
        if state != "Z" and int(of_session) == session:
            found.append(f"{entry.parent.name} {name}")
    return found


def said_by(path, process, words):
    deadline = time.monotonic() + stack.PATIENCE
    while not path.exists() or words not in path.read_text():
        assert process.poll() is None and time.monotonic() < deadline, f"{path} does not say '{words}'"
        time.sleep(0.02)


# Ctrl-C goes to every process of the terminal; a supervisor's SIGTERM to the script alone.
@pytest.mark.parametrize("send, code", [(lambda pid: os.killpg(pid, signal.SIGINT), 130),
                                        (lambda pid: os.kill(pid, signal.SIGTERM), 143)], ids=["ctrl-c", "sigterm"])
@pytest.mark.parametrize("log, words, written", [("out/off/run.log", "set-up and build", False),
                                                 ("log", " in flight ", True)], ids=["start", "replay"])
def test_together_leaves_no_process(tmp_path, send, code, log, words, written):
    with (tmp_path / "log").open("w") as out:
        # Whoever runs the tests in the background has Ctrl-C ignored, and a shell cannot take that back.
        process = subprocess.Popen(["env", "--default-signal=INT", "deploy/local/compare", "--together", "off", "lynx"],
                                   cwd=stack.ROOT, stdout=out, stderr=out, env=environment_of(tmp_path / "out"),
                                   start_new_session=True)
    try:
        said_by(tmp_path / log, process, words)
        send(process.pid)
        assert process.wait(stack.PATIENCE) == code
        assert stack.eventually(lambda: processes_of(process.pid) == []), processes_of(process.pid)
        assert (tmp_path / "out/comparison.html").exists() == written, "what there is by then is compared"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
