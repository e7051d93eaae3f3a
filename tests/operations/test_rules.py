"""The recording rules and alerts: promtool's own tests, and that no alert is without a test or a page."""
import pathlib
import re
import subprocess

import pytest
import yaml

PROMETHEUS = pathlib.Path(__file__).resolve().parents[2] / "deploy/prometheus"
RULES = sorted(PROMETHEUS.glob("*.rules.yml"))
TESTS = sorted((PROMETHEUS / "tests").glob("*.test.yml"))


def load(path):
    return yaml.safe_load(path.read_text())


def rules(kind):
    """Every rule of a kind, `alert` or `record`, by name."""
    found = [rule for path in RULES for group in load(path)["groups"] for rule in group["rules"] if kind in rule]
    return {rule[kind]: rule for rule in found}


ALERTS = rules("alert")


def promtool(*arguments):
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_parse():
    promtool("check", "rules", *RULES)


def test_configuration_parses():
    promtool("check", "config", PROMETHEUS / "prometheus.yml")


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_rules_do_what_their_tests_say(path):
    promtool("test", "rules", path)


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_is_quiet_then_fires_then_resolves(name):
    checks = [check for path in TESTS for test in load(path)["tests"] for check in test.get("alert_rule_test", [])]
    story = [bool(check["exp_alerts"]) for check in checks if check["alertname"] == name]
    assert re.search("^0+1+0+", "".join("01"[fires] for fires in story)), f"tests of {name}: {story}"


@pytest.mark.parametrize("name", rules("record"))
def test_every_recorded_series_is_used_or_checked(name):
    text = "".join(path.read_text() for path in [*TESTS, *RULES])
    assert len(re.findall(rf"{re.escape(name)}(?![\w:])", text)) > text.count(f"record: {name}\n"), name


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_has_a_severity_and_a_page(name):
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in ("page", "ticket")
    assert alert["annotations"]["runbook"] == f"deploy/prometheus/runbooks/{name}.md"
    page = (PROMETHEUS / "runbooks" / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    for heading in ("## What it means", "## What to look at", "## What to do"):
        assert heading in page, f"{name}.md lacks '{heading}'"


def test_every_page_belongs_to_an_alert():
    pages = {path.stem for path in (PROMETHEUS / "runbooks").glob("*.md")} - {"README"}
    assert pages == set(ALERTS)
