"""From a Dashboard to the JSON of Grafana 10 and later. The data source is a variable, so the file imports by hand and by
provisioning alike, with nothing to fill in."""
import json

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
ROW_HEIGHT, STAT_HEIGHT, PANEL_HEIGHT = 1, 4, 8


def variable(name, label, query):
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE, "definition": query,
        "query": {"query": query, "refId": "variable"}, "refresh": 2, "sort": 1,
        "multi": True, "includeAll": True, "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


VARIABLES = [
    {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}},
    variable("namespace", "Namespace", "label_values(lynx_build_info, namespace)"),
    variable("model", "Model", 'label_values(lynx_build_info{namespace=~"$namespace"}, model)'),
    variable("worker", "Worker", 'label_values(lynx_build_info{namespace=~"$namespace", model=~"$model"}, worker)'),
]


def target(query, index, panel):
    instant = panel.kind in ("barchart", "table")
    return {
        "refId": chr(ord("A") + index), "datasource": SOURCE, "editorMode": "code", "expr": query.expr,
        "legendFormat": query.legend, "range": not instant, "instant": instant,
        "format": "table" if instant else "time_series",
    }


def dashed(pattern):
    """A promise, not a measurement: a dashed line."""
    return {"matcher": {"id": "byRegexp", "options": pattern}, "properties": [
        {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 8]}},
        {"id": "custom.fillOpacity", "value": 0},
        {"id": "color", "value": {"mode": "fixed", "fixedColor": "text"}}]}


def field_config(panel):
    steps = panel.steps or [(None, "green" if panel.kind == "stat" else "text")]
    defaults = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]},
        "color": {"mode": "thresholds" if panel.kind == "stat" else "palette-classic"},
    }
    for key, value in (("min", None if panel.log else panel.low), ("max", panel.high), ("decimals", panel.decimals)):
        if value is not None:
            defaults[key] = value
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line", "lineWidth": 1, "showPoints": "never", "spanNulls": False,
            "fillOpacity": 30 if panel.stacked else 8,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
            "scaleDistribution": {"type": "log", "log": 10} if panel.log else {"type": "linear"},
            "thresholdsStyle": {"mode": "line" if panel.steps else "off"},
        }
    return {"defaults": defaults, "overrides": [dashed("/objective|limit/")] if panel.kind == "timeseries" else []}


def options(panel):
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "value",
                "graphMode": "area", "textMode": "name" if panel.names_only else "value_and_name", "justifyMode": "auto", "orientation": "auto"}
    if panel.kind == "barchart":
        return {"xField": panel.label, "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                "tooltip": {"mode": "multi", "sort": "none"}, "showValue": "never", "stacking": "none"}
    if panel.kind == "table":
        return {"showHeader": True, "cellHeight": "sm"}
    return {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"}}


def transformations(panel):
    if panel.kind == "table":
        return [{"id": "organize", "options": {"excludeByName": {"Time": True, "Value": True}}}]
    if panel.kind != "barchart":
        return []
    names = {f"Value #{chr(ord('A') + i)}": query.legend for i, query in enumerate(panel.queries)}
    hidden = {name: True for name in ("Time", *(f"Time {i + 1}" for i in range(len(panel.queries))))}

    def convert(kind):  # as numbers to sort them, as text to name the bars
        return {"id": "convertFieldType", "options": {"conversions": [{"targetField": panel.label, "destinationType": kind}]}}
    return [{"id": "joinByField", "options": {"byField": panel.label, "mode": "outer"}},
            {"id": "organize", "options": {"excludeByName": hidden, "renameByName": names}},
            convert("number"), {"id": "sortBy", "options": {"sort": [{"field": panel.label}]}}, convert("string")]


def panel_json(panel, number, place):
    out = {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.description,
        "datasource": SOURCE, "gridPos": place, "fieldConfig": field_config(panel), "options": options(panel),
        "targets": [target(query, i, panel) for i, query in enumerate(panel.queries)],
    }
    if transformations(panel):
        out["transformations"] = transformations(panel)
    return out


def places(dashboard):
    """(row or panel, its place on the grid), top to bottom; a line is as high as its panels."""
    out, y = [], 0
    for row in dashboard.rows:
        out.append((row, {"x": 0, "y": y, "w": 24, "h": ROW_HEIGHT}))
        y += ROW_HEIGHT
        x, line = 0, 0
        for panel in row.panels:
            height = STAT_HEIGHT if panel.kind == "stat" else PANEL_HEIGHT
            if x + panel.width > 24:
                x, y, line = 0, y + line, 0
            out.append((panel, {"x": x, "y": y, "w": panel.width, "h": height}))
            x, line = x + panel.width, max(line, height)
        y += line
    return out


def dashboard_json(dashboard):
    panels = []
    for number, (item, place) in enumerate(places(dashboard), start=1):
        if hasattr(item, "panels"):
            panels.append({"id": number, "type": "row", "title": item.title, "collapsed": False, "gridPos": place, "panels": []})
        else:
            panels.append(panel_json(item, number, place))
    return {
        "uid": dashboard.uid, "title": dashboard.title, "description": dashboard.description, "tags": ["lynx"],
        "editable": True, "graphTooltip": 1, "refresh": "10s", "schemaVersion": 39, "version": 1,
        "time": {"from": "now-1h", "to": "now"}, "timezone": "browser", "annotations": {"list": []},
        "links": [{"type": "dashboards", "tags": ["lynx"], "title": "Lynx", "asDropdown": True, "includeVars": True,
                   "keepTime": True}],
        "templating": {"list": VARIABLES}, "panels": panels,
    }


def text(dashboard):
    return json.dumps(dashboard_json(dashboard), indent=1) + "\n"
