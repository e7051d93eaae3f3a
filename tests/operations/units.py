"""Values as Grafana writes them, by its names of the units."""

SI = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")]


def scaled(value, suffix, digits=3):
    for factor, prefix in SI:
        if abs(value) >= factor:
            return f"{value / factor:.{digits}g} {prefix}{suffix}".rstrip()
    return f"{value:.{digits}g} {suffix}".rstrip()


def seconds(value):
    for factor, unit in ((60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {unit}"
    return "0 s" if value == 0 else f"{value * 1e6:.2g} µs"


def percent(value):
    return f"{100 * value:.3g}%"


def written(value, unit):
    if unit == "s":
        return seconds(value)
    if unit == "percentunit":
        return percent(value)
    return scaled(value, {"Bps": "B/s", "bytes": "B", "reqps": "/s"}.get(unit, ""))
