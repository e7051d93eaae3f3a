"""deploy/cuda/targets.py: its table of made-up figures, what it asks of the benchmarks, and a whole call on a CPU.

LYNX_BENCH names the lynx-bench to call.
"""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "deploy/cuda"))
import targets  # noqa: E402

ASKED = json.loads((ROOT / "deploy/cuda/targets.json").read_text())


def row(name, value, ceiling=0.0, unit="us/layer", **details):
    return {"name": name, "unit": unit, "value": value, "ceiling": ceiling, "details": details}


RUNS = {
    "kernel": {one["name"]: one for one in [
        row("layer", 108.0, 100.0, memory_gbytes_per_s=4560.0), row("slow", 108.1, 100.0, memory_gbytes_per_s=4560.0),
        row("no floor", 90.0), row("no time", None, 100.0, memory_gbytes_per_s=4560.0),
        row("route.b1", 4.0), row("route.b16", 5.5)]},
    "step": {one["name"]: one for one in [
        row("off", 20.25, 17.0, "ms", memory_gbytes_per_s=4560.0, layers=28, experts_per_layer=50.1),
        row("lynx", 15.0, 12.0, "ms", memory_gbytes_per_s=4560.0, layers=28, experts_per_layer=35.0)]},
    "absent": targets.NotRun("no file of router logits"),
    "broken": targets.NotMeasured("the run 'broken' ended with 1: no GPU"),
}


def judge(kind, rows, **limit):
    return targets.judge({"what": "what", "kind": kind, "rows": rows, **limit}, RUNS)


class Table(unittest.TestCase):
    def test_a_ratio_is_met_at_its_limit_and_missed_above(self):
        self.assertEqual(judge("ratio", ["kernel/layer"], at_most=1.08), [
            "what", "1.08 x its bytes", "1.080 x: 108 us for a floor of 100 at 4.56 TB/s", "met"])
        self.assertEqual(judge("ratio", ["kernel/slow"], at_most=1.08)[-1], "missed")

    def test_every_row_of_a_time_must_meet_it(self):
        self.assertEqual(judge("time", ["kernel/route.b1"], at_most=5)[2:], ["4.00 us", "met"])
        self.assertEqual(judge("time", ["kernel/route.b1", "kernel/route.b16"], at_most=5)[2:], ["4.00, 5.50 us", "missed"])

    def test_a_share_is_of_all_layers_in_the_step(self):
        self.assertEqual(judge("share", ["kernel/route.b16", "step/lynx"], at_most=1), [
            "what", "1 %", "1.027 %: 28 layers of 5.50 us, step 15 ms", "missed"])

    def test_a_speedup_has_a_least_value(self):
        cells = judge("speedup", ["step/off", "step/lynx"], at_least=1.35)
        self.assertEqual(cells[1], "at least 1.35 x")
        self.assertTrue(cells[2].startswith("1.350 x: 20.25 ms for a floor of 17 at 4.56 TB/s, 50.1 experts a layer; then 15 ms"), cells[2])
        self.assertEqual(cells[-1], "met")
        self.assertEqual(judge("speedup", ["step/lynx", "step/off"], at_least=1.35)[-1], "missed")

    def test_what_was_not_measured_says_why(self):
        self.assertEqual(judge("ratio", ["absent/step"], at_most=1)[2:], ["no file of router logits", "not measured"])
        self.assertEqual(judge("ratio", ["broken/step"], at_most=1)[2:], ["the run 'broken' ended with 1: no GPU", "failed"])
        self.assertEqual(judge("ratio", ["step/b4"], at_most=1)[2:], ["the run 'step' has no row b4", "failed"])
        self.assertEqual(judge("ratio", ["kernel/no floor"], at_most=1)[2:], ["no floor has no ceiling", "failed"])
        self.assertEqual(judge("ratio", ["kernel/no time"], at_most=1)[2:], ["no time has no value", "failed"])

    def test_the_table_counts_outcomes(self):
        asked = [{"what": "a", "kind": "ratio", "at_most": 1.08, "rows": [f"kernel/{name}"]} for name in ("layer", "slow", "none")]
        text, counts = targets.table(asked, RUNS)
        self.assertEqual(counts, {"met": 1, "missed": 1, "not measured": 0, "failed": 1})
        self.assertEqual([line.count("|") for line in text.splitlines()], [5] * 5)
        self.assertTrue(text.splitlines()[3].endswith("| **missed** |"))


class Asked(unittest.TestCase):
    def test_every_target_names_a_run_a_kind_and_one_limit(self):
        for target in ASKED["targets"]:
            with self.subTest(target["what"]):
                self.assertEqual(("at_most" in target) + ("at_least" in target), 1)
                self.assertIn(target["kind"], targets.KINDS)
                for place in target["rows"]:
                    self.assertIn(place.partition("/")[0], ASKED["runs"])

    def test_rows_of_a_recorded_run_on_a_gpu_are_found(self):
        rows = json.loads((ROOT / "tests/loadtest/capacity/data/kernel_h200.json").read_text())
        places = [place for target in ASKED["targets"] for place in target["rows"]]
        layers = {place.removeprefix("kernel/") for place in places if place.startswith("kernel/qwen3-30b-a3b.")}
        self.assertEqual(len(layers), 6)
        self.assertLessEqual(layers, {one["name"] for one in rows})


class Runs(unittest.TestCase):
    def setUp(self):
        self.enterContext(contextlib.redirect_stderr(io.StringIO()))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def program(self, text):
        file = self.out / "program"
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        return file

    def run_of(self, text, call="step"):
        return str(targets.run_all(self.program(text), {"one": call}, None, self.out)[0]["one"])

    def test_without_a_recording_what_needs_one_is_not_run(self):
        runs, _ = targets.run_all(self.program("exit 3"), {"one": "step --router-logits {router_logits}"}, None, self.out)
        self.assertIsInstance(runs["one"], targets.NotRun)

    def test_a_run_that_hangs_is_ended(self):
        with unittest.mock.patch.object(targets, "RUN_SECONDS", 0.1):
            self.assertEqual(self.run_of("exec sleep 60"), "the run 'one' took more than 0.1 s")

    def test_the_last_word_of_a_run_is_told(self):
        self.assertEqual(self.run_of("echo first; echo out of memory >&2; exit 1"), "the run 'one' ended with 1: out of memory")
        self.assertEqual(self.run_of("exit 0"), "the run 'one' ended with 0: no word")

    def test_figures_of_an_earlier_run_are_not_taken_for_its_own(self):
        (self.out / "one.json").write_text("[]")
        self.assertIn("ended with 0", self.run_of("exit 0"))


class Call(unittest.TestCase):
    def call(self, *options):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([sys.executable, ROOT / "deploy/cuda/targets.py", os.environ["LYNX_BENCH"], "--out", out, *options],
                                  capture_output=True, text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
            if done.returncode < 2:
                self.assertEqual((Path(out) / "targets.md").read_text(), done.stdout)
        return done, [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")][1:]

    def file_without(self, *runs):
        asked = json.loads((HERE / "cpu_targets.json").read_text())
        asked["targets"] = [target for target in asked["targets"] if target["rows"][0].partition("/")[0] not in runs]
        asked["runs"] = {name: call for name, call in asked["runs"].items() if name not in runs}
        file = tempfile.NamedTemporaryFile("w", suffix=".json")
        json.dump(asked, file)
        file.flush()
        self.addCleanup(file.close)
        return file.name

    def test_a_failed_run_is_told_and_ends_with_1(self):
        done, rows = self.call("--targets", HERE / "cpu_targets.json")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual([cells[-1] for cells in rows], ["met", "**missed**", "met", "met", "**failed**"])
        self.assertIn("--batch", rows[-1][2])
        self.assertIn("3 met, 1 missed, 0 not measured, 1 failed.", done.stdout)

    def test_a_miss_is_a_result_unless_strict(self):
        file = self.file_without("wrong", "engine")
        self.assertEqual(self.call("--targets", file)[0].returncode, 0)
        self.assertEqual(self.call("--targets", file, "--strict")[0].returncode, 1)

    def test_a_file_that_is_not_there_is_wrong_use(self):
        for option in ("--router-logits", "--targets"):
            done, _ = self.call(option, "nowhere.npz")
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{option}: no file nowhere.npz", done.stderr)

    def test_a_program_that_is_not_there_is_wrong_use(self):
        for program in ("nowhere", HERE, HERE / "cpu_targets.json"):
            done = subprocess.run([sys.executable, ROOT / "deploy/cuda/targets.py", program], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"no program {program}", done.stderr)

    def test_the_benchmarks_take_what_is_asked_of_them(self):
        """Where no GPU is to be seen each run ends for want of it alone; a CPU build has not every subcommand."""
        done, rows = self.call()
        self.assertEqual(done.returncode, 1)
        for cells in rows:
            if "'kernel'" not in cells[2]:
                self.assertNotRegex(cells[2], "expected|required|--[a-z]|has no row")
                self.assertRegex(cells[2], "(?i)cuda|gpu")


if __name__ == "__main__":
    unittest.main()
