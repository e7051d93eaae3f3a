#!/usr/bin/env python3
"""Which speed targets a GPU meets: runs lynx-bench as targets.json says, and prints a Markdown table.

Every target there names rows of the runs ("RUN/ROW") and what is asked of them:
  ratio    the row's time over its floor (bytes / read bandwidth that the same run measured)
  time     the row's microseconds; of several rows each
  share    the first row, of one layer, in percent of the second, a whole step
  speedup  the first row's time over the second's

Exit status: 0 when every run gave what was asked of it, whether met or missed; 1 when one did not; with --strict also when a
target was missed, or not measured for want of a recording. Each run's rows (JSON) and log stay in --out, and the table.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Recordings of a trained router: the whole one where it lies beside a checkout, else the repository's sample of it.
RECORDINGS = [ROOT.parent / "shared/pilot/router_logits.npz", ROOT / "tests/kernels/lynx/data/router_logits_6x64x64.f16"]
RUN_SECONDS = 90  # a run that takes longer is ended


class NotMeasured(Exception):
    """Why a figure is not there, and whether that is a failure."""

    outcome = "failed"


class NotRun(NotMeasured):
    outcome = "not measured"


def number(row, key):
    """A positive number; JSON has null for what is none."""
    value = row.get(key)
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise NotMeasured(f"{row['name']} has no {key}")
    return value


def detail(row, key):
    return number({"name": row["name"], **row.get("details", {})}, key)


def bandwidth(row):
    gigabytes = detail(row, "memory_gbytes_per_s")
    return f"{gigabytes / 1000:.2f} TB/s" if gigabytes >= 1000 else f"{gigabytes:.1f} GB/s"


def unit(row):
    return row["unit"].split("/")[0]


def against_floor(row):
    return f"{number(row, 'value'):.4g} {unit(row)} for a floor of {number(row, 'ceiling'):.4g} at {bandwidth(row)}"


def judge_ratio(row):
    return [number(row, "value") / number(row, "ceiling")], against_floor(row)


def judge_time(*rows):
    return [number(row, "value") for row in rows], ""


def judge_share(routing, step):
    layers, us, ms = detail(step, "layers"), number(routing, "value"), number(step, "value")
    return [100 * layers * us / (1000 * ms)], f"{layers:.0f} layers of {us:.2f} us, step {ms:.4g} ms"


def judge_speedup(before, after):
    parts = [f"{against_floor(row)}, {detail(row, 'experts_per_layer'):.1f} experts a layer" for row in (before, after)]
    return [number(before, "value") / number(after, "value")], f"{parts[0]}; then {parts[1]}"


# What is asked: its unit, and the function from rows to figures and what stands behind them.
KINDS = {"ratio": (" x its bytes", judge_ratio), "time": (" us", judge_time), "share": (" %", judge_share),
         "speedup": (" x", judge_speedup)}


def find(place, runs):
    run, _, name = place.partition("/")
    rows = runs[run]
    if isinstance(rows, NotMeasured):
        raise rows
    if name not in rows:
        raise NotMeasured(f"the run '{run}' has no row {name}")
    return rows[name]


def judge(target, runs):
    """The table's cells; the last is the outcome: met, missed, not measured or failed."""
    suffix, measure = KINDS[target["kind"]]
    least = "at_least" in target
    limit = target["at_least" if least else "at_most"]
    cells = [target["what"], f"{'at least ' if least else ''}{limit:.4g}{suffix}"]
    try:
        figures, behind = measure(*(find(place, runs) for place in target["rows"]))
    except NotMeasured as why:
        return [*cells, str(why).replace("|", "/"), why.outcome]
    met = all(figure >= limit if least else figure <= limit for figure in figures)
    digits = 2 if target["kind"] == "time" else 3
    text = ", ".join(f"{figure:.{digits}f}" for figure in figures) + suffix.replace(" its bytes", "")
    return [*cells, f"{text}: {behind}" if behind else text, "met" if met else "missed"]


def table(targets, runs):
    """The Markdown table, and how many targets came out how."""
    judged = [judge(target, runs) for target in targets]
    counts = {outcome: sum(row[-1] == outcome for row in judged) for outcome in ("met", "missed", "not measured", "failed")}
    lines = ["| what | at most | measured | |", "|---|---|---|---|"]
    lines += ["| " + " | ".join([*row[:-1], row[-1] if row[-1] == "met" else f"**{row[-1]}**"]) + " |" for row in judged]
    return "\n".join(lines) + "\n", counts


def bench(program, name, arguments, out):
    """The rows of one lynx-bench call by name; throws NotMeasured."""
    rows, log = out / f"{name}.json", out / f"{name}.log"
    rows.unlink(missing_ok=True)
    with open(log, "w") as sink:
        try:
            status = subprocess.run([program, "--json", rows, *arguments], cwd=ROOT, stdout=sink, stderr=subprocess.STDOUT,
                                    timeout=RUN_SECONDS).returncode
        except subprocess.TimeoutExpired:
            raise NotMeasured(f"the run '{name}' took more than {RUN_SECONDS} s") from None
    if status != 0 or not rows.exists():
        said = [line for line in log.read_text(errors="replace").splitlines() if line.strip() and not line.startswith("Run with --help")]
        raise NotMeasured(f"the run '{name}' ended with {status}: {said[-1] if said else 'no word'}")
    return {row["name"]: row for row in json.loads(rows.read_text())}


def run_all(program, calls, recording, out):
    """The rows of every run, or why there are none; and the seconds that each took."""
    runs, seconds = {}, {}
    for name, call in calls.items():
        start = time.monotonic()
        try:
            if "{router_logits}" in call and not recording:
                raise NotRun("no file of router logits: name one by --router-logits")
            arguments = [word.format(router_logits=recording) for word in call.split()]
            print(f"== {name}: lynx-bench {' '.join(arguments)}", file=sys.stderr, flush=True)
            runs[name] = bench(program, name, arguments, out)
        except NotMeasured as why:
            runs[name] = why
        seconds[name] = time.monotonic() - start
    return runs, seconds


def gpu():
    try:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                               text=True, timeout=20)
        return asked.stdout.splitlines()[0].replace(", ", ", driver ")
    except (OSError, subprocess.SubprocessError, IndexError):
        return "no GPU that nvidia-smi knows"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="path of lynx-bench, built with CUDA")
    parser.add_argument("--router-logits", type=Path, help="recorded router logits, .npz or .f16")
    parser.add_argument("--strict", action="store_true", help="a target that is missed or not measured is a failure")
    parser.add_argument("--out", type=Path, default=ROOT / "out/targets", help="folder (%(default)s)")
    parser.add_argument("--targets", type=Path, default=HERE / "targets.json", help="file (%(default)s)")
    options = parser.parse_args()
    if not os.access(options.program, os.X_OK) or options.program.is_dir():
        parser.error(f"program: no program {options.program}")
    if not options.targets.is_file():
        parser.error(f"--targets: no file {options.targets}")
    if options.router_logits and not options.router_logits.exists():
        parser.error(f"--router-logits: no file {options.router_logits}")
    asked = json.loads(options.targets.read_text())
    options.out.mkdir(parents=True, exist_ok=True)
    recording = options.router_logits or next((path for path in RECORDINGS if path.exists()), None)
    runs, seconds = run_all(options.program.resolve(), asked["runs"], recording and recording.resolve(), options.out.resolve())
    text, counts = table(asked["targets"], runs)
    text += "\n" + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) + f". On {gpu()}; router logits of "
    text += f"{recording.name if recording else 'no recording'}; seconds: "
    text += ", ".join(f"{name} {spent:.0f}" for name, spent in seconds.items()) + ".\n"
    (options.out / "targets.md").write_text(text)
    print(text, end="")
    return 1 if counts["failed"] or (options.strict and counts["met"] < len(asked["targets"])) else 0


if __name__ == "__main__":
    sys.exit(main())
