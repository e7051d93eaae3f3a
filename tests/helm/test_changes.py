"""What a change of values changes: pods are replaced when what they read has changed, and only then."""
import chart


def checksums(*flags):
    documents = chart.parse(chart.template("--set", "clusterSecret.value=a", *flags))
    return {component: workload["spec"]["template"]["metadata"]["annotations"]
            for component, workload in chart.workloads(documents).items()}


def changed(before, after):
    return {component for component in before if before[component] != after[component]}


def test_a_setting_replaces_the_pods_that_read_it():
    before = checksums()
    assert changed(before, checksums("--set", "decode.config.max_batch=32")) == {"decode"}
    assert changed(before, checksums("--set", "workers.config.kv.block_tokens=32")) == {"prefill", "decode"}
    assert changed(before, checksums("--set", "router.config.routing.policy=round_robin")) == {"router"}


def test_a_new_secret_replaces_the_pods():
    before = checksums()
    assert changed(before, checksums("--set", "clusterSecret.value=b")) == set(chart.SERVICES)


def test_more_replicas_replace_no_pod():
    assert changed(checksums(), checksums("--set", "decode.replicas=9")) == set()


def test_a_secret_made_up_replaces_no_pod():
    """It differs at every rendering without a cluster; the checksum must not."""
    first, second = (chart.parse(chart.template()) for _ in range(2))

    def secret(documents):
        return chart.of_kind(documents, "Secret")[0]["data"]["cluster-secret"]

    assert secret(first) != secret(second)
    assert chart.workloads(first) == chart.workloads(second)


def test_a_workers_own_setting_wins_over_the_shared_one():
    documents = chart.parse(chart.template("--set", "workers.config.kv.memory_mb=100",
                                           "--set", "decode.config.kv.memory_mb=200"))
    memory = {service: chart.parse(chart.config_text(documents, service))[0]["kv"]["memory_mb"]
              for service in ("prefill", "decode")}
    assert memory == {"prefill": 100, "decode": 200}


def test_threads_follow_the_cpu_limit_unless_set():
    workers = chart.workloads(chart.parse(chart.template("--set", "decode.config.threads=3")))
    assert "--threads=$(CPU_LIMIT)" in chart.container(workers["prefill"])["args"]
    assert not [word for word in chart.container(workers["decode"])["args"] if "threads" in word]


def test_notes_say_what_to_do_next():
    text = chart.notes()
    for words in ("rollout status deployment/lynx-router", "helm -n serving test lynx", "port-forward",
                  "monitoring.podMonitor.enabled", "kept in Secret lynx-cluster"):
        assert words in text
    assert "would cut the longest" not in text


def test_notes_warn_of_a_drain_that_cuts_requests():
    """Field report 18: a grace period shorter than a generation."""
    text = chart.notes("--set", "router.terminationGracePeriodSeconds=120")
    assert "a request may live 600s" in text and "Give it 620" in text
    text = chart.notes("--set", "router.terminationGracePeriodSeconds=620")
    assert "would cut the longest" not in text
    text = chart.notes("--set", "router.config.slo.standard.deadline=0.5h")
    assert "a request may live 1800s" in text


def test_notes_warn_of_an_open_api():
    assert "asks for no key" in chart.notes("--set", "router.service.type=LoadBalancer")
    assert "asks for no key" not in chart.notes("--set", "router.service.type=LoadBalancer,apiKeys.values={k}")
