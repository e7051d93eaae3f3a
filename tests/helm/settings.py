"""The settings of the services as their binaries tell them, turned into the part of values.schema.json that checks them."""
import re
import subprocess

import yaml

from chart import BINARIES, SERVICES

# What the chart derives from other values; .config must not name it.
DERIVED = {
    "router": {"shutdown_grace", "model.path", "model.name", "http.host", "http.port", "http.api_keys_file",
               "http.tls_certificate_file", "http.tls_key_file", "control.host", "control.port",
               "control.secret_file"},
    "prefill": {"shutdown_grace", "routers", "worker.name", "model.path", "model.name", "http.host", "http.port",
                "control.secret_file"},
}
DERIVED["decode"] = DERIVED["prefill"]

DURATION = {"anyOf": [{"type": "integer", "minimum": 0},
                      {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h)?$"}]}


def call(service, *flags):
    return subprocess.run([BINARIES / f"lynx-{service}", "--model.path", "/model", *flags, "--print-config"],
                          capture_output=True, text=True)


def printed(service):
    done = call(service)
    assert done.returncode == 0, done.stderr
    return done.stdout


def explained(text):
    """--print-config as [(path, value, comment)]."""
    out, sections, comment = [], [], ""
    for line in text.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        line = line.strip()
        if line.startswith("#"):
            comment = line[1:].strip()
        elif match := re.match(r"([\w-]+):(.*)$", line):
            sections = [*sections[:depth], match[1]]
            if comment:  # a section's own line has none
                out.append((".".join(sections), comment))
                comment = ""
    values = yaml.safe_load(text)

    def at(path):
        value = values
        for word in path.split("."):
            value = value[word]
        return value

    return [(path, at(path), comment) for path, comment in out]


def is_whole_number(service, path):
    return call(service, f"--{path}=0.5").returncode != 0


def type_of(service, path, value):
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, (int, float)):
        return {"type": "integer" if is_whole_number(service, path) else "number"}
    if isinstance(value, list):
        return {"type": "array", "items": {"type": "string"}}
    if isinstance(value, dict):
        return {"type": "object", "additionalProperties": {"type": "number"}}
    if re.fullmatch(r"\d+ms", value):
        return DURATION
    return {"type": "string"}


def nested(leaves):
    """{"a.b": schema} as the schema of an object of objects; nothing else is allowed in any of them."""
    root = {"type": "object", "additionalProperties": False, "properties": {}}
    for path, leaf in leaves.items():
        *sections, name = path.split(".")
        at = root
        for section in sections:
            at = at["properties"].setdefault(
                section, {"type": "object", "additionalProperties": False, "properties": {}})
        at["properties"][name] = leaf
    return root


def definitions():
    """routerConfig, prefillConfig, decodeConfig, and workersConfig: what both kinds of worker know."""
    leaves = {}
    for service in SERVICES:
        leaves[service] = {path: {"description": comment, **type_of(service, path, value)}
                           for path, value, comment in explained(printed(service)) if path not in DERIVED[service]}
    leaves["workers"] = {path: leaf for path, leaf in leaves["prefill"].items() if path in leaves["decode"]}
    return {f"{name}Config": nested(of) for name, of in sorted(leaves.items())}
