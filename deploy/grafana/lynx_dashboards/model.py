"""What a dashboard is made of. A query says, beside its PromQL, in which range its values must lie: the tests hold a
running stack to it."""
from dataclasses import dataclass, field

# Selectors of every query. The router's series have no `worker` and no `role`; several metrics are the router's and the
# workers' alike.
ROUTER = 'namespace=~"$namespace", model=~"$model", role=""'
WORKER = 'namespace=~"$namespace", model=~"$model", worker=~"$worker", role!=""'
PREFILL = WORKER.replace('role!=""', 'role="prefill"')
DECODE = WORKER.replace('role!=""', 'role="decode"')
# Of recorded series, whose rule has picked the role, and of series that only the router has.
CLUSTER = 'namespace=~"$namespace", model=~"$model"'

GREEN, ORANGE, RED, BLUE = "green", "orange", "red", "blue"


@dataclass(frozen=True)
class Query:
    expr: str
    legend: str
    low: float
    high: float


@dataclass(frozen=True)
class Panel:
    title: str
    description: str
    unit: str  # Grafana's name of it: s, percentunit, Bps, reqps, short, ...
    queries: list
    kind: str = "timeseries"  # timeseries, stat, barchart (one bar a label), table
    width: int = 8  # of 24
    stacked: bool = False
    log: bool = False  # of the axis
    names_only: bool = False  # stat: the legend is the answer, not the value
    decimals: int | None = None
    low: float | None = 0  # of the axis
    high: float | None = None
    steps: list = field(default_factory=list)  # thresholds: (from, colour), the first from None
    label: str = ""  # barchart: the label on the x axis


@dataclass(frozen=True)
class Row:
    title: str
    panels: list


@dataclass(frozen=True)
class Dashboard:
    uid: str
    title: str
    description: str
    rows: list

    def panels(self):
        return [panel for row in self.rows for panel in row.panels]


def ratio(numerator, denominator, by, selector, window="$__rate_interval"):
    """A ratio of two rates over the same window; no value where the denominator stands still."""
    def total(series):
        name, _, labels = series.partition("{")
        inside = f"{labels[:-1]}, {selector}" if labels else selector
        return f"sum by ({by}) (rate({name}{{{inside}}}[{window}]))"
    return f"{total(numerator)}\n/ ({total(denominator)} > 0)"


def mean(histogram, by, selector):
    name, _, labels = histogram.partition("{")
    labels = "{" + labels if labels else ""
    return ratio(f"{name}_sum{labels}", f"{name}_count{labels}", by, selector)


def quantile(q, histogram, by, selector):
    name, _, labels = histogram.partition("{")
    inside = f"{labels[:-1]}, {selector}" if labels else selector
    return f"histogram_quantile({q}, sum by ({by}, le) (rate({name}_bucket{{{inside}}}[$__rate_interval])))"


def rate(series, by, selector):
    name, _, labels = series.partition("{")
    inside = f"{labels[:-1]}, {selector}" if labels else selector
    return f"sum by ({by}) (rate({name}{{{inside}}}[$__rate_interval]))"
