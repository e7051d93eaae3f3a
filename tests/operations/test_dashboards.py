"""The dashboards: against their generator, and what may be said of a query without running it.
Field report 19: no counter since birth."""
import json
import pathlib
import re

import pytest
import yaml

import promql
from lynx_dashboards import DASHBOARDS
from lynx_dashboards.grafana import text

ROOT = pathlib.Path(__file__).resolve().parents[2]
PANELS = [pytest.param(panel, id=f"{board.uid}: {panel.title}") for board in DASHBOARDS for panel in board.panels()]
RULES = [pytest.param(rule, id=rule.get("record", rule.get("alert")))
         for path in sorted((ROOT / "deploy/prometheus").glob("*.rules.yml"))
         for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]
VARIABLES = {"namespace", "model", "worker", "__rate_interval", "__range", "datasource"}


def assert_no_counter_since_birth(expr):
    for metric, _, ranged, before in promql.selectors(expr):
        if promql.counts_up(metric):
            assert ranged and before.endswith(("rate(", "increase(")), f"{metric} since birth in: {expr}"


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)
def test_json_is_what_the_generator_writes(board):
    written = (ROOT / "deploy/grafana" / f"{board.uid}.json").read_text()
    assert written == text(board), "deploy/grafana/generate writes it anew"


def test_no_dashboard_is_left_over():
    assert {path.stem for path in (ROOT / "deploy/grafana").glob("*.json")} == {board.uid for board in DASHBOARDS}


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)
def test_grafana_finds_what_it_needs(board):
    written = json.loads(text(board))
    ids = [panel["id"] for panel in written["panels"]]
    assert len(set(ids)) == len(ids)
    assert "${DS_" not in text(board) and "__inputs" not in written, "provisioning fills nothing in"
    assert {variable["name"] for variable in written["templating"]["list"]} == {"datasource", "namespace", "model", "worker"}
    cells = set()
    for panel in written["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        own = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & own, f"{panel['title']} lies over another panel"
        cells |= own


@pytest.mark.parametrize("panel", PANELS)
def test_panel_says_what_it_shows(panel):
    assert panel.title and panel.unit and len(panel.description) > 10
    for query in panel.queries:
        assert query.low <= query.high
        assert set(re.findall(r"\$(\w+)", query.expr)) <= VARIABLES


@pytest.mark.parametrize("panel", PANELS)
def test_panel_takes_increases_of_counters(panel):
    for query in panel.queries:
        assert_no_counter_since_birth(query.expr)


@pytest.mark.parametrize("panel", PANELS)
def test_panel_obeys_the_variables(panel):
    for query in panel.queries:
        for metric, matchers, _, _ in promql.selectors(query.expr):
            assert {"namespace", "model"} <= matchers.keys(), f"{metric} in: {query.expr}"


@pytest.mark.parametrize("rule", RULES)
def test_rule_takes_increases_of_counters(rule):
    assert_no_counter_since_birth(rule["expr"])


def test_a_counter_since_birth_is_found():
    for expr in ("sum(lynx_slo_requests_total{met=\"true\"}) / sum(lynx_slo_requests_total)",
                 "lynx_ttft_seconds_sum / lynx_ttft_seconds_count", "avg_over_time(lynx_resumes_total[5m])"):
        with pytest.raises(AssertionError):
            assert_no_counter_since_birth(expr)
    assert_no_counter_since_birth("rate(lynx_ttft_seconds_sum[5m]) / rate(lynx_ttft_seconds_count[5m])")
