"""What the commands of deploy/local refuse before they install, build or start anything."""
import fcntl
import os
import re
import subprocess

import pytest

import stack

WRONG = [
    ("run", {"LYNX_API_PORT": "80x"}, [], "LYNX_API_PORT: expected 1 to 65522, for it and 13 ports above it, got '80x'"),
    ("run", {"LYNX_API_PORT": "65523"}, [], "LYNX_API_PORT: expected 1 to 65522"),
    ("run", {"LYNX_DECODE_WORKERS": "0"}, [], "LYNX_DECODE_WORKERS: expected 1 to 99, got '0'"),
    ("run", {"LYNX_MODEL": "/nowhere"}, [], "LYNX_MODEL: no folder of a model: '/nowhere/config.json' is not there"),
    ("run", {"LYNX_OUT": "README.md"}, [], "LYNX_OUT: 'README.md' cannot be a folder"),
    ("run", {"LYNX_POLCY": "off"}, [], "LYNX_POLCY: there is no such variable; the nearest is LYNX_POLICY"),
    ("run", {"LYNX_WORKERS": "3"}, [], "LYNX_WORKERS: there is no such variable; the nearest is LYNX_DECODE_WORKERS"),
    ("compare", {"LYNX_API_PROT": "1"}, ["off", "lynx"], "LYNX_API_PROT: there is no such variable; the nearest is LYNX_API_PORT"),
    ("test", {"LYNX_FUZZ_SECOND": "60"}, ["fuzz"], "the nearest is LYNX_FUZZ_SECONDS"),
    ("test", {"LYNX_FUZZ_SECONDS": "1m"}, ["fuzz"], "LYNX_FUZZ_SECONDS: expected a number of seconds, got '1m'"),
    ("run", {"LYNX_POLICY": "of"}, [], "LYNX_POLICY: 'of' is not one of: "),
    ("run", {"LYNX_PLACEMENT": "affinity"}, [], "LYNX_PLACEMENT: 'affinity' is not one of: "),
    ("run", {"LYNX_TRANSPORT": "TCP"}, [], "LYNX_TRANSPORT: 'TCP' is not one of: "),
    ("run", {"LYNX_DRIFT_EVERY": "16s"}, [], "LYNX_DRIFT_EVERY: expected a number of steps"),
    ("compare", {"LYNX_MODEL": "/nowhere"}, ["--together", "off", "lynx"], "LYNX_MODEL: no folder of a model"),
    ("compare", {"LYNX_API_PORT": "65480"}, ["--together", "off", "lynx"], "LYNX_API_PORT: expected 1 to 65472"),
    ("compare", {"LYNX_DECODE_WORKERS": "39"}, ["--together", "off", "lynx"], "LYNX_DECODE_WORKERS: expected 1 to 38"),
    ("compare", {}, ["off", "lnyx"], "policy: 'lnyx' is not one of: lynx energy off"),
    ("compare", {}, ["--together", "lnyx", "off"], "policy: 'lnyx' is not one of: lynx energy off"),
    ("compare", {}, ["off", "lynx,energy"], "policy: 'lynx,energy' is not one of: "),
    ("compare", {}, ["least_loaded", "expert_affinity"], "'least_loaded' is a placement policy of the router: --placement first"),
    ("compare", {}, ["--placement", "least_loaded", "lynx"], "policy: 'lynx' is not one of: round_robin least_loaded"),
    ("run", {}, ["--synthetic.duration", "5", "--serve"], "--serve replays nothing: it takes no other option"),
    ("test", {}, ["format", "nothing"], "unknown part 'nothing'"),
    ("setup", {}, ["nothing"], "'nothing' is not build or browser"),
]


def wrong_use(command, environment, words):
    done = subprocess.run([f"deploy/local/{command}", *words], cwd=stack.ROOT, env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=stack.PATIENCE)
    assert done.returncode == 2 and not done.stdout, done.stdout + done.stderr
    return done.stderr


@pytest.mark.parametrize("command, environment, words, said", WRONG)
def test_wrong_use_is_told_at_once(tmp_path, command, environment, words, said):
    assert said in wrong_use(command, {"LYNX_OUT": str(tmp_path), **environment}, words)


def test_a_variable_of_another_command_is_told(tmp_path):
    said = wrong_use("run", {"LYNX_OUT": str(tmp_path), "LYNX_THREADS": "4", "LYNX_DRIFT_EVERY": "x"}, [])
    assert "run: LYNX_THREADS has no effect here: deploy/docker/compose.yaml reads it\n" in said


def test_what_kubernetes_tells_a_pod_is_no_slip(tmp_path):
    services = {"LYNX_ROUTER_SERVICE_HOST": "10.0.0.1", "LYNX_ROUTER_SERVICE_PORT_HTTP": "8000",
                "LYNX_ROUTER_PORT": "tcp://10.0.0.1:8000", "LYNX_ROUTER_PORT_8000_TCP_ADDR": "10.0.0.1"}
    said = wrong_use("run", {"LYNX_OUT": str(tmp_path), "LYNX_DRIFT_EVERY": "x", **services}, [])
    assert said.startswith("run: LYNX_DRIFT_EVERY: ")


def test_every_variable_that_anything_reads_is_known():
    """Scripts expand $LYNX_X, Compose ${LYNX_X, and C++ and Python name one in quotes."""
    known = set(re.findall(r"\bLYNX_[A-Z_]+", subprocess.run(["bash", "-c", ". deploy/local/settings.sh; who_reads_what"],
                                                             cwd=stack.ROOT, capture_output=True, text=True, check=True).stdout))
    of_image_builds = {"LYNX_UCX_CUDA"}  # an ARG of the Dockerfile
    read = set()
    for name in subprocess.run(["git", "ls-files", "common", "deploy", "kernels", "loadtest", "services", "tests"],
                               cwd=stack.ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        path = stack.ROOT / name
        if path.suffix in (".cc", ".h"):
            read |= set(re.findall(r'"(LYNX_[A-Z_]+)"', path.read_text(errors="ignore")))
        elif not path.suffix or path.suffix in (".sh", ".cuda") or path.name == "compose.yaml":
            read |= set(re.findall(r"\$\{?(LYNX_[A-Z_]+)", path.read_text(errors="ignore")))
    assert read - of_image_builds == known


# What a command offers is what the process takes, no more and no less. The process takes a name when it complains about
# the setting that it looks at next.
@pytest.mark.parametrize("variable, binary, setting, next_one", [
    ("LYNX_POLICY", "lynx-decode", "lynx.policy", ["--lynx.window", "101"]),
    ("LYNX_PLACEMENT", "lynx-router", "routing.policy", ["--routing.prefill_slots", "0"]),
])
def test_the_policies_offered_are_those_there_are(tmp_path, variable, binary, setting, next_one):
    offered = wrong_use("run", {"LYNX_OUT": str(tmp_path), variable: "none"}, []).split(" is not one of: ")[1].split()

    def complaint(name):
        done = subprocess.run([f"build/cpu/bin/{binary}", "--model.path", "deploy/model", f"--{setting}", name, *next_one],
                              cwd=stack.ROOT, capture_output=True, text=True, timeout=stack.PATIENCE)
        assert done.returncode == 1
        return done.stderr

    assert sorted(offered) == sorted(complaint("none").split(" is not one of ")[1].strip().split(", "))
    for name in offered:
        assert complaint(name).startswith(f"{binary}: {next_one[0][2:]}")


def test_a_second_run_leaves_the_files_of_the_first_alone(tmp_path):
    with open(tmp_path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another run" in wrong_use("run", {"LYNX_OUT": str(tmp_path)}, [])
