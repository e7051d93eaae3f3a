"""Draws the dashboards as PNG from the answers that a real Prometheus gave to their queries: real data, no Grafana."""
import dataclasses
import json
import pathlib
import re
import sys

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: E402
from PIL import Image  # noqa: E402

from units import written  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy/grafana"))

from lynx_dashboards import DASHBOARDS  # noqa: E402
from lynx_dashboards.grafana import places  # noqa: E402
from lynx_dashboards.model import Dashboard, Row  # noqa: E402

ANSWERS = ROOT / "build/operations/answers.json"
COLUMN, LINE, DPI = 0.6, 0.34, 84  # inches of a grid cell; dots an inch
COLOURS = ["#3a7d44", "#d98e04", "#2f6fb0", "#b0413e", "#7a5195", "#2a9d8f", "#8c6d46", "#c2577f", "#5b6770", "#9aa60a"]
NAMED = {"green": "#3a7d44", "orange": "#d98e04", "red": "#b0413e", "blue": "#2f6fb0", "text": "#555555"}
MOST_IN_LEGEND = 9

# The first page's picture: a few panels of each dashboard.
OVERVIEW = {
    "lynx-service": ["Time to first token", "Time per output token", "Output tokens"],
    "lynx-decode": ["Unique experts per layer and step", "Expert bytes", "Router mass retained", "Step time against its model",
                    "Batch size"],
    "lynx-kv": ["Blocks by state, decode"],
}


def legend_text(query, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), query.legend).strip()


def lines_of(panel, answers):
    return [(legend_text(query, labels), values) for query, found in zip(panel.queries, answers) for labels, values in found]


def with_gaps(values, start):
    """Seconds and values, broken where a second has none: a line would invent it."""
    xs, ys = [], []
    for at, value in values:
        if xs and at - start - xs[-1] > 1.5:
            xs.append(xs[-1] + 1)
            ys.append(float("nan"))
        xs.append(at - start)
        ys.append(value)
    return xs, ys


def draw_series(axes, panel, lines, start):
    if panel.stacked:
        instants = sorted({at for _, values in lines for at, _ in values})
        stack = [[dict(values).get(at, 0) for at in instants] for _, values in lines]
        colours = [COLOURS[i % len(COLOURS)] for i in range(len(lines))]
        axes.stackplot([at - start for at in instants], stack, labels=[name for name, _ in lines], colors=colours, alpha=0.75)
    else:
        for i, (name, values) in enumerate(lines):
            promise = re.search("objective|limit", name)
            axes.plot(*with_gaps(values, start), label=name, linewidth=1.1, clip_on=False,
                      linestyle="--" if promise else "-", color="#777777" if promise else COLOURS[i % len(COLOURS)])
    for value, colour in panel.steps[1:]:
        axes.axhline(value, color=NAMED[colour], linewidth=0.7, linestyle=":")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} s"))


def draw_bars(axes, panel, answers):
    groups = [{labels[panel.label]: values[-1][1] for labels, values in found} for found in answers]
    names = sorted({name for group in groups for name in group}, key=float)
    for i, (query, group) in enumerate(zip(panel.queries, groups)):
        axes.bar([x + (i - 0.5) * 0.4 for x in range(len(names))], [group.get(name, 0) for name in names], width=0.38,
                 color=COLOURS[i], label=query.legend)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel(panel.label, fontsize=7, color="#555555")


def draw_stat(axes, panel, lines):
    axes.axis("off")
    for i, (name, values) in enumerate(lines):
        last = values[-1][1]
        colour = [colour for value, colour in panel.steps or [(None, "green")] if value is None or last >= value][-1]
        x = (i + 0.5) / len(lines)
        text = f"{100 * last:.{panel.decimals}f}%" if panel.unit == "percentunit" else written(last, panel.unit)
        text, size = (name, 10) if panel.names_only else (text, 17)
        axes.text(x, 0.5, text, ha="center", va="center", fontsize=size, color=NAMED[colour], transform=axes.transAxes)
        axes.text(x, 0.12, "" if panel.names_only else name, ha="center", va="center", fontsize=7, color="#555555", transform=axes.transAxes)


def draw_table(axes, answers):
    axes.axis("off")
    rows = sorted((labels for found in answers for labels, _ in found), key=lambda labels: labels.get("worker", ""))
    columns = sorted({name for row in rows for name in row})
    table = axes.table([[row.get(name, "") for name in columns] for row in rows], colLabels=columns, loc="upper center",
                       cellLoc="left", edges="horizontal")
    table.set_fontsize(8)


def finish_axes(axes, panel):
    axes.grid(axis="y", linewidth=0.4, color="#dddddd")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelsize=7, length=0, colors="#555555")
    if panel.log:
        axes.set_yscale("log")
        axes.minorticks_off()
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value, panel.unit)))
    if panel.low == 0 and not panel.log:
        axes.set_ylim(bottom=0)
        if axes.dataLim.ymax <= 0:  # nothing happened
            axes.set_ylim(top=1)
    if panel.high is not None:
        axes.set_ylim(top=panel.high)
    handles, names = axes.get_legend_handles_labels()
    if len(names) > MOST_IN_LEGEND:
        names[MOST_IN_LEGEND - 1] = f"... {len(names) - MOST_IN_LEGEND + 1} more"
    axes.legend(handles[:MOST_IN_LEGEND], names[:MOST_IN_LEGEND], fontsize=6, frameon=False, ncols=3, loc="upper left",
                bbox_to_anchor=(0, -0.13), handlelength=1.2, columnspacing=1.2, borderaxespad=0.2)


def draw_panel(figure, panel, answers, box, start):
    left, bottom, width, height = box
    figure.text(left + 0.006, bottom + height - 0.004, panel.title, fontsize=8.5, weight="bold", color="#222222", va="top")
    if panel.kind == "stat":
        return draw_stat(figure.add_axes([left, bottom, width, height * 0.8]), panel, lines_of(panel, answers))
    inner = [left + 0.042, bottom + height * 0.27, width - 0.052, height * 0.58]
    axes = figure.add_axes(inner)
    if panel.kind == "table":
        return draw_table(axes, answers)
    if panel.kind == "barchart":
        draw_bars(axes, panel, answers)
    else:
        draw_series(axes, panel, lines_of(panel, answers), start)
    finish_axes(axes, panel)


def draw(board, answers, path):
    layout = places(board)
    lines = max(place["y"] + place["h"] for _, place in layout)
    figure = plt.figure(figsize=(24 * COLUMN, lines * LINE), facecolor="white")
    instants = [at for panel in answers for query in panel for _, values in query for at, _ in values]
    start, panels = min(instants), iter(answers)
    for item, place in layout:
        box = [place["x"] / 24, 1 - (place["y"] + place["h"]) / lines, place["w"] / 24, place["h"] / lines]
        if hasattr(item, "panels"):
            figure.text(0.006, box[1] + box[3] / 2, item.title, fontsize=10, color="#777777", va="center")
        else:
            draw_panel(figure, item, next(panels), box, start)
    figure.savefig(path, dpi=DPI)
    plt.close(figure)
    with Image.open(path) as image:  # few colours: a quarter of the bytes
        image.convert("RGB").quantize(96).save(path, optimize=True)


def overview(answers):
    """A dashboard of OVERVIEW's panels, and its answers."""
    chosen = [(dataclasses.replace(panel, width=8), found) for board in DASHBOARDS
              for panel, found in zip(board.panels(), answers[board.uid]) if panel.title in OVERVIEW[board.uid] and panel.kind != "stat"]
    row = Row("Lynx under bursts", [panel for panel, _ in chosen])
    return Dashboard("overview", "", "", [row]), [found for _, found in chosen]


def draw_all(answers_path, folder):
    answers = json.loads(pathlib.Path(answers_path).read_text())
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [(board, answers[board.uid]) for board in DASHBOARDS] + [overview(answers)]
    for board, found in drawn:
        draw(board, found, folder / f"{board.uid}.png")
    return [folder / f"{board.uid}.png" for board, _ in drawn]


if __name__ == "__main__":
    for written_path in draw_all(ANSWERS, ROOT / "deploy/grafana/pictures"):
        print(written_path.relative_to(ROOT))
