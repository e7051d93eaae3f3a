"""Turn one packaged file into documents: lists of paragraphs, a paragraph being prose on one line or code as it stands."""

import gzip
import re
import subprocess
import textwrap
from pathlib import Path

from lxml import html as lxml_html

BLOCKS = ("p", "li", "dt", "dd", "pre", "h1", "h2", "h3", "h4", "blockquote", "div")
FURNITURE = re.compile(r"nav|sidebar|footer|header-|related|toc|breadcrumb|index|search|copyright|linenos", re.I)
LICENCE = re.compile(
    r"copyright|licen[sc]e|all rights reserved|redistribut|warrant(y|ies)|permission is (hereby )?granted|\bSPDX\b",
    re.I,
)


def read_bytes(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def read_text(path: Path) -> str:
    return read_bytes(path).decode("utf-8", "replace")


def unwrap(block: str) -> str:
    """Join hard-wrapped prose into one line; leave a block with inner indentation as it stands."""
    lines = textwrap.dedent(block).strip("\n").split("\n")
    if any(line[:1].isspace() for line in lines):
        return "\n".join(line.rstrip() for line in lines)
    return " ".join(" ".join(lines).split())


def paragraphs(text: str) -> list[str]:
    return [unwrap(block) for block in re.split(r"\n\s*\n", text.expandtabs(4)) if block.strip()]


def is_furniture(element) -> bool:
    """Navigation by its name, unless it holds paragraphs: some themes call the whole page `nav-content`."""
    names = (element.get("class") or "") + " " + (element.get("id") or "")
    return bool(FURNITURE.search(names)) and sum(1 for _ in element.iter("p", "pre")) < 3


def read_html(path: Path) -> list[list[str]]:
    data = read_bytes(path)
    if not data.strip():
        return []
    root = lxml_html.fromstring(data, parser=lxml_html.HTMLParser(encoding="utf-8"))
    for element in list(root.iter("script", "style", "nav", "footer", "table", "svg", "form", "head")):
        element.drop_tree()
    for element in list(root.iter("div", "ul", "section", "aside")):
        if element.getparent() is not None and is_furniture(element):
            element.drop_tree()
    document = []
    for element in root.iter(*BLOCKS):
        if element.tag == "pre":
            document.append(textwrap.dedent(element.text_content().expandtabs(4)).strip("\n"))
        elif not any(child.tag in BLOCKS for child in element.iterdescendants()):
            document.append(" ".join(element.text_content().replace("¶", "").split()))
    return [document]


def read_man(path: Path) -> list[list[str]]:
    rendered = subprocess.run(
        ["mandoc", "-T", "utf8", "-O", "width=100"], input=read_bytes(path), capture_output=True, check=False
    ).stdout.decode("utf-8", "replace")
    body = re.sub(r".\x08", "", rendered).split("\n")[1:-2]
    return [paragraphs(re.sub(r"(\w)[-‐]\n\s+(\w)", r"\1\2", "\n".join(body)))]


def read_pod(path: Path) -> list[list[str]]:
    rendered = subprocess.run(["pod2text", "-w", "100"], input=read_bytes(path), capture_output=True, check=False)
    return [paragraphs(rendered.stdout.decode("utf-8", "replace"))]


def read_info(path: Path) -> list[list[str]]:
    nodes = re.split(r"\x1f\n?", read_text(path))[1:]
    bodies = (re.sub(r"\* Menu:.*", "", node.split("\n", 1)[-1], flags=re.S) for node in nodes)
    return [paragraphs(re.sub(r"^[-*=.]{3,}$", "", body, flags=re.M)) for body in bodies]


def read_plain(path: Path) -> list[list[str]]:
    return [paragraphs(re.sub(r"[|*](\S+)[|*]", r"\1", read_text(path)))]


def read_fortune(path: Path) -> list[list[str]]:
    return [paragraphs(saying) for saying in read_text(path).split("\n%\n")]


def read_dict(path: Path) -> list[list[str]]:
    """One document per headword, `word: definition`; cross-reference braces and datelines go."""
    entries = re.split(r"\n(?=\S)", read_text(path))
    documents = []
    for entry in entries:
        word, _, body = entry.partition("\n")
        body = re.sub(r"\[(syn|ant|also):[^]]*\]|\(\d{4}-\d\d-\d\d\)|[{}]", "", body)
        body = " ".join(body.split())
        if len(body) > 30 and not word.startswith("00-"):
            documents.append([f"{word.strip()}: {body}"])
    return documents


def read_wesnoth(path: Path) -> list[list[str]]:
    """The dialogue and narration of a game scenario, in order."""
    lines = re.findall(r'(?:message|story|description)\s*=\s*_\s*"((?:[^"]|"")+)"', read_text(path))
    return [[" ".join(line.replace('""', '"').split()) for line in lines]]


def read_code(path: Path) -> list[list[str]]:
    """A source file by its blank-line blocks, without its licence header."""
    blocks = re.split(r"\n(?=\n*\S)(?<=\n\n)", read_text(path).expandtabs(4))
    return [[b.rstrip() for b in blocks if b.strip() and not (LICENCE.search(b) and b.lstrip()[:1] in "/#*")]]


READERS = {
    "html": read_html, "man": read_man, "pod": read_pod, "info": read_info, "plain": read_plain,
    "fortune": read_fortune, "dict": read_dict, "wesnoth": read_wesnoth, "code": read_code,
}  # fmt: skip
