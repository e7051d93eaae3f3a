"""Lynx's dashboards as data, and the JSON that Grafana imports."""
from . import decode, kv, service

DASHBOARDS = [service.DASHBOARD, decode.DASHBOARD, kv.DASHBOARD]
