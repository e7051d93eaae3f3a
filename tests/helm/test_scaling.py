"""What the ScaledObjects ask Prometheus, answered by Prometheus's own evaluator over made-up series."""
import re
import subprocess

import yaml

import chart

NAMESPACE = 'namespace="serving",model="mini"'


def queries():
    out = {}
    for scaled in chart.of_kind(chart.render(chart.HERE / "cases/everything.yaml"), "ScaledObject"):
        component = scaled["metadata"]["labels"]["app.kubernetes.io/component"]
        for trigger in scaled["spec"]["triggers"]:
            if trigger["type"] == "prometheus":
                out[component, trigger["name"]] = trigger["metadata"]
    return out


def ask(tmp_path, series, expected):
    """expected: (component, name) -> value ten minutes in. promtool prints what differs and fails."""
    asked = queries()
    samples = [{"labels": "{}", "value": value} for value in expected.values()]
    tests = {"rule_files": [], "evaluation_interval": "15s", "tests": [{
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": f"round({asked[key]['query']}, 0.0001)", "eval_time": "10m", "exp_samples": [sample]}
                             for key, sample in zip(expected, samples)]}]}
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump(tests))
    done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def slo(objective, met, per_step):
    return {f'lynx_slo_requests_total{{{NAMESPACE},slo_class="standard",objective="{objective}",met="{met}"}}':
            f"0+{per_step}x60"}


def worker(metric, pod, component, values, **labels):
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    return {f'{metric}{{{NAMESPACE},worker="{pod}",role="{component}"{more}}}': values}


def test_a_burning_budget_asks_for_more_in_proportion(tmp_path):
    series = {**slo("tpot", "true", 99), **slo("tpot", "false", 1), **slo("ttft", "true", 97), **slo("ttft", "false", 3)}
    # 1 % of requests miss and 0.1 % may: ten times too fast. 3 % of 1 %: three times.
    ask(tmp_path, series, {("decode", "budget-burn"): 10, ("prefill", "budget-burn"): 3})
    assert queries()["decode", "budget-burn"]["threshold"] == "1"


def test_no_traffic_asks_for_nothing(tmp_path):
    idle = {**slo("tpot", "true", 0), **slo("tpot", "false", 0)}
    for series in (idle, {"unrelated": "0x60"}):
        ask(tmp_path, series, {("decode", "budget-burn"): 0, ("decode", "predicted-batch"): 0,
                               ("decode", "predicted-step"): 0})


def test_steady_load_is_predicted_as_it_is(tmp_path):
    series = {}
    for pod, used in (("a", 30), ("b", 50)):
        series |= worker("lynx_kv_blocks", pod, "decode", f"{100 - used}x60", state="free")
        series |= worker("lynx_kv_blocks", pod, "decode", f"{used}x60", state="active")
        series |= worker("lynx_batch_size_sum", pod, "decode", "0+1600x60", phase="decode")
        series |= worker("lynx_batch_size_count", pod, "decode", "0+100x60", phase="decode")
        series |= worker("lynx_sequence_slots", pod, "decode", "32x60")
        series |= worker("lynx_step_predicted_seconds_sum", pod, "decode", "0+2x60")
        series |= worker("lynx_step_predicted_seconds_count", pod, "decode", "0+100x60")
    series |= worker("lynx_step_seconds_sum", "p", "prefill", "0+6x60", phase="prefill")  # 6 s of every 15
    for slo_class, limit in (("interactive", 0.04), ("batch", 0.5)):
        series[f'lynx_slo_objective_seconds{{{NAMESPACE},slo_class="{slo_class}",objective="tpot"}}'] = f"{limit}x60"
    ask(tmp_path, series, {("decode", "predicted-kv"): 0.4,
                           ("decode", "predicted-step"): 0.5,  # 20 ms of the 40 that the tightest class allows
                           ("decode", "predicted-batch"): 0.5,  # 16 sequences in 32 slots
                           ("prefill", "predicted-busy"): 0.4})


def test_growth_is_seen_before_it_is_there(tmp_path):
    """One percent of the blocks more every 15 s: after ten minutes 40 are used; two minutes on it will be 48."""
    series = {**worker("lynx_kv_blocks", "a", "decode", "100-1x60", state="free"),
              **worker("lynx_kv_blocks", "a", "decode", "0+1x60", state="active")}
    ask(tmp_path, series, {("decode", "predicted-kv"): 0.48})


def test_other_namespaces_models_and_roles_do_not_count(tmp_path):
    series = {**worker("lynx_kv_blocks", "p", "prefill", "0x60", state="free"),
              **worker("lynx_kv_blocks", "a", "decode", "80x60", state="free"),
              **worker("lynx_kv_blocks", "a", "decode", "20x60", state="active"),
              'lynx_kv_blocks{namespace="other",model="mini",role="decode",state="active"}': "1000x60",
              'lynx_kv_blocks{namespace="serving",model="other",role="decode",state="active"}': "1000x60"}
    ask(tmp_path, series, {("decode", "predicted-kv"): 0.2})


def test_every_metric_that_is_asked_for_exists():
    """In the sources of the services, under the name that the registry gives it."""
    known = set()
    for source in (chart.ROOT / "services").rglob("*.cc"):
        known |= set(re.findall(r'"([a-z_]+)"', source.read_text()))
    for key, metadata in queries().items():
        for metric in re.findall(r"lynx_([a-z_]+)", metadata["query"]):
            base = re.sub(r"_(sum|count|bucket)$", "", metric)
            assert {metric, base} & known, f"{key}: lynx_{metric}"
