"""deploy/docker/compose.yaml: what it tells the services they understand, and a drain fits in its grace periods."""
import re
import subprocess

import compose_spec
import pytest
import yaml

import chart

DOCKER = chart.ROOT / "deploy/docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
LYNX = [name for name in COMPOSE["services"] if name in chart.SERVICES]
KEYS = {"image", "build", "command", "environment", "volumes", "ports", "read_only", "tmpfs", "cap_drop", "security_opt",
        "restart", "depends_on", "healthcheck", "stop_grace_period", "deploy"}
services = pytest.mark.parametrize("name", LYNX)


def filled(text):
    """The file's own defaults, as compose would put them in."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def test_has_the_three_services_and_who_watches_them():
    assert set(COMPOSE["services"]) == {*chart.SERVICES, "prometheus", "grafana"}
    for name, service in COMPOSE["services"].items():
        assert set(service) <= KEYS, name
        assert not service["image"].endswith(":latest") and ":" in service["image"]


@services
def test_the_service_understands_its_flags(name, tmp_path):
    program, *flags = map(filled, COMPOSE["services"][name]["command"])
    assert program == f"lynx-{name}"
    done = subprocess.run([chart.BINARIES / program, *flags, "--print-config"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read = yaml.safe_load(done.stdout)
    assert read["http"]["host"] == "0.0.0.0" and read["http"]["port"] == (8000 if name == "router" else 8080)
    if name == "router":
        assert read["control"] | {"host": "0.0.0.0", "port": 7700} == read["control"]
    else:
        assert read["routers"] == ["router:7700"]
    grace = int(COMPOSE["services"][name]["stop_grace_period"].removesuffix("s"))
    assert int(read["shutdown_grace"].removesuffix("ms")) + 5000 <= grace * 1000


@services
def test_has_no_more_rights_than_needed(name):
    service = COMPOSE["services"][name]
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["environment"]["LYNX_CLUSTER_SECRET"].startswith("${LYNX_CLUSTER_SECRET:?"), "no default secret"
    assert all(volume.endswith(":ro") for volume in service["volumes"])


def test_nothing_is_open_beyond_the_machine():
    for service in COMPOSE["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_mounted_files_exist():
    for service in COMPOSE["services"].values():
        for volume in map(filled, service["volumes"]):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (DOCKER / source).exists(), source


def test_prometheus_reads_its_file_and_finds_rules(tmp_path):
    """With the folders laid as compose mounts them."""
    (tmp_path / "prometheus.yml").write_text((DOCKER / "prometheus.yml").read_text())
    (tmp_path / "lynx").symlink_to(chart.ROOT / "deploy/prometheus")
    done = subprocess.run(["promtool", "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS: 2 rule files found" in done.stdout, done.stdout
    jobs = {job["job_name"]: job["dns_sd_configs"][0]
            for job in yaml.safe_load((DOCKER / "prometheus.yml").read_text())["scrape_configs"]}
    assert {name: (sd["names"], sd["port"]) for name, sd in jobs.items()} == {
        f"lynx-{name}": ([name], 8000 if name == "router" else 8080) for name in chart.SERVICES}


def parse_compose(values):
    return compose_spec.PyCompose.from_yaml(filled(yaml.safe_dump(values)).replace("${LYNX_CLUSTER_SECRET:?", "${X:-"))


def test_is_what_the_compose_specification_says():
    parse_compose(COMPOSE)
    for spoil in ({"stop_grace_period": "soon"}, {"readonly": True}, {"ports": "8000"}, {"deploy": {"replicas": "two"}}):
        broken = {**COMPOSE, "services": {"router": {**COMPOSE["services"]["router"], **spoil}}}
        with pytest.raises(Exception):
            parse_compose(broken)
