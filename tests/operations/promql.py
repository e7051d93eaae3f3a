"""The little of PromQL that the tests must read: selectors, and what stands around them."""
import re

METRIC = r"(?<![\w:])(?:lynx_\w+|lynx:[\w:]+|up)(?![\w:(])"
SELECTOR = re.compile(rf"({METRIC})(?:\{{([^}}]*)\}})?(\[[^\]]+\])?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')


def selectors(expr):
    """(metric, {label: (operator, value)}, whether a range follows, what stands before) of each selector."""
    for found in SELECTOR.finditer(expr):
        matchers = {label: (operator, value) for label, operator, value in MATCHER.findall(found[2] or "")}
        yield found[1], matchers, bool(found[3]), expr[:found.start()]


def counts_up(metric):
    """A counter, or a part of a histogram: only its increase over a window says anything."""
    return metric.startswith("lynx_") and metric.endswith(("_total", "_sum", "_count", "_bucket"))


def fill(expr, namespace=".*", model=".*", worker=".*", window="10s", span="25s"):
    """The variables of a dashboard, as Grafana puts them in."""
    values = {"namespace": namespace, "model": model, "worker": worker, "__rate_interval": window, "__range": span}
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], expr)
