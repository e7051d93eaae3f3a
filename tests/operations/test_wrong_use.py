"""What the commands of deploy/local refuse before they install, build or start anything."""
import fcntl
import os
import subprocess

import pytest

import stack

WRONG = [
    ("run", {"LYNX_API_PORT": "80x"}, [], "LYNX_API_PORT: expected 1 to 65522, for it and 13 ports above it, got '80x'"),
    ("run", {"LYNX_API_PORT": "65523"}, [], "LYNX_API_PORT: expected 1 to 65522"),
    ("run", {"LYNX_DECODE_WORKERS": "0"}, [], "LYNX_DECODE_WORKERS: expected 1 to 99, got '0'"),
    ("run", {"LYNX_MODEL": "/nowhere"}, [], "LYNX_MODEL: no folder of a model: '/nowhere/config.json' is not there"),
    ("run", {"LYNX_OUT": "README.md"}, [], "LYNX_OUT: 'README.md' cannot be a folder"),
    ("run", {}, ["--synthetic.duration", "5", "--serve"], "--serve replays nothing: it takes no other option"),
    ("test", {}, ["format", "nothing"], "unknown part 'nothing'"),
    ("setup", {}, ["nothing"], "'nothing' is not build or browser"),
]


def wrong_use(command, environment, words):
    done = subprocess.run([f"deploy/local/{command}", *words], cwd=stack.ROOT, env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=stack.START_SECONDS)
    assert done.returncode == 2 and not done.stdout, done.stdout + done.stderr
    return done.stderr


@pytest.mark.parametrize("command, environment, words, said", WRONG)
def test_wrong_use_is_told_at_once(tmp_path, command, environment, words, said):
    assert said in wrong_use(command, {"LYNX_OUT": str(tmp_path), **environment}, words)


def test_a_second_run_leaves_the_files_of_the_first_alone(tmp_path):
    with open(tmp_path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another run" in wrong_use("run", {"LYNX_OUT": str(tmp_path)}, [])
