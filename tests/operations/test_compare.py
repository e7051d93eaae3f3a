"""What deploy/local/compare refuses before it starts a process."""
import os
import subprocess

import pytest

import stack

WRONG = [
    (["off", "lynx", "--trace", "nowhere.csv"], "--trace: nowhere.csv: No such file"),
    (["off", "lynx", "--synthetic.rate", "0"], "--synthetic.rate: expected"),
    (["off", "lynx", "--warmup", "1s"], "unknown argument '--warmup', did you mean '--warm-up'?"),
    (["off", "lynx", "--target", "127.0.0.1:1"], "--target: At Most 1"),  # which the script gives
    (["lynx", "lynx"], "two different policies, not lynx twice"),
    (["--placement", "least_loaded", "expert_affinity", "--topics", "nowhere.json"], "--topics: nowhere.json: cannot be read"),
]


@pytest.mark.parametrize("words, said", WRONG, ids=lambda value: value if isinstance(value, str) else None)
def test_together_checks_its_options_before_it_starts(tmp_path, words, said):
    environment = {**os.environ, "LYNX_OUT": str(tmp_path), "LYNX_API_PORT": str(stack.free_base())}
    done = subprocess.run(["deploy/local/compare", "--together", *words], cwd=stack.ROOT, env=environment,
                          capture_output=True, text=True, timeout=stack.START_SECONDS)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not list(tmp_path.iterdir()), "the folders of the two sides, which are made when their processes start"
