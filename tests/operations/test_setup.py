"""deploy/local/setup while another process holds a lock of apt's: real apt-get, on lists and a status of its own."""
import contextlib
import fcntl
import os
import subprocess

import pytest

import stack


def write_program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path):
    """The environment of a machine that lacks every package and has no source of any; sleeping takes no time."""
    bin = tmp_path / "bin"
    for folder in (bin, tmp_path / "lists/partial", tmp_path / "archives/partial", tmp_path / "dpkg"):
        folder.mkdir(parents=True)
    (tmp_path / "dpkg/status").touch()
    (tmp_path / "apt.conf").write_text(f"""
        Dir::State "{tmp_path}"; Dir::State::lists "{tmp_path}/lists"; Dir::State::status "{tmp_path}/dpkg/status";
        Dir::Cache "{tmp_path}"; Dir::Cache::archives "{tmp_path}/archives";
        Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "/dev/null";
    """)
    write_program(bin / "dpkg-query", "exit 1")
    write_program(bin / "sudo", 'exec "$@"')
    write_program(bin / "sleep", f"echo >>{tmp_path}/slept; exec /bin/sleep 0.01")
    return {**os.environ, "APT_CONFIG": str(tmp_path / "apt.conf"), "PATH": f"{bin}:{os.environ['PATH']}"}


@contextlib.contextmanager
def setup(machine):
    process = subprocess.Popen(["deploy/local/setup"], cwd=stack.ROOT, env=machine, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


# `apt-get update` takes that of the lists; `apt-get install` dpkg's, as an upgrade does.
@pytest.mark.parametrize("lock", ["lists/lock", "dpkg/lock-frontend"])
def test_it_waits_for_a_lock_and_goes_on(machine, tmp_path, lock):
    with open(tmp_path / lock, "w") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        with setup(machine) as process:
            assert process.stdout.readline().startswith("setup: installing ")
            said = process.stdout.readline()
            assert said.startswith("setup: waiting up to ten minutes: ")
            assert f"/{lock}. It is held by process {os.getpid()} (" in said
            fcntl.lockf(held, fcntl.LOCK_UN)
            rest, errors = process.communicate(timeout=stack.PATIENCE)
    assert "waiting" not in rest
    assert "lock" not in errors and "Unable to locate package" in errors, "that far it came, with no source of packages"


def test_it_gives_up_after_ten_minutes_and_says_who_holds_it(machine, tmp_path):
    with open(tmp_path / "lists/lock", "w") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        with setup(machine) as process:
            _, errors = process.communicate(timeout=stack.PATIENCE)
            assert process.returncode == 1
    assert f"It is held by process {os.getpid()} (" in errors and "gave up after ten minutes" in errors
    assert 10 * len((tmp_path / "slept").read_text().splitlines()) == pytest.approx(600, abs=10)
