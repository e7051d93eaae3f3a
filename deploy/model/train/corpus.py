"""Make the corpus from Debian packages: download, extract, clean, drop repeats, write `corpus.jsonl.xz`.

Each line of the output is {"package", "kind", "text"}; kind is prose, code or dictionary.
"""

import argparse
import csv
import hashlib
import json
import lzma
import re
import subprocess
import unicodedata
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path

from readers import LICENCE, READERS

SHORTEST_DOCUMENT = 200
LONGEST_LINE = 4_000
PUNCTUATION = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "‐": "-", "‑": "-", "−": "-", "\xa0": " ", "\x00": None}
)


@dataclass(frozen=True)
class Source:
    package: str
    licence: str
    reader: str
    megabytes: float
    path: str

    @property
    def kind(self) -> str:
        return {"code": "code", "dict": "dictionary"}.get(self.reader, "prose")


def sources() -> list[Source]:
    with open(Path(__file__).with_name("sources.tsv"), newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Source(**{**row, "megabytes": float(row["megabytes"])}) for row in rows]


def unpack(source: Source, work: Path) -> Path:
    """Download the package with apt and unpack it below `work`, once."""
    root = work / source.package
    if not root.exists():
        subprocess.run(["apt-get", "download", source.package], cwd=work, check=True, stdout=subprocess.DEVNULL)
        deb = next(work.glob(f"{source.package}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
    return root


def key(text: str) -> str:
    """What two copies of one paragraph share: its letters, without case, space and digits."""
    return hashlib.blake2b(re.sub(r"[\W\d_]+", "", text).lower().encode(), digest_size=8).hexdigest()


def reads_as_prose(paragraph: str) -> bool:
    letters = sum(c.isalpha() and c.isascii() or c == " " for c in paragraph)
    return letters > 0.72 * len(paragraph)


def reads_as_code(paragraph: str) -> bool:
    """Tables of constants are mostly digits and commas; code is mostly names."""
    letters = sum(c.isalpha() or c in " _\n" for c in paragraph)
    return paragraph.isascii() and letters > 0.62 * len(paragraph) and max(map(len, paragraph.split("\n"))) < 200


def keep(paragraph: str, kind: str) -> bool:
    if not paragraph or len(paragraph) > LONGEST_LINE:
        return False
    if LICENCE.search(paragraph) and (kind == "code" or len(paragraph) > 300):
        return False
    return reads_as_code(paragraph) if kind == "code" or "\n" in paragraph else reads_as_prose(paragraph)


def normalise(text: str) -> str:
    return unicodedata.normalize("NFC", text.translate(PUNCTUATION))


def read_file(job: tuple[Source, Path]) -> list[list[str]]:
    source, path = job
    try:
        documents = READERS[source.reader](path)
    except (ValueError, OSError, EOFError):  # a damaged or empty file is not worth stopping for
        return []
    return [[p for p in map(normalise, document) if keep(p, source.kind)] for document in documents]


def files_of(source: Source, root: Path) -> list[Path]:
    """The package's matching files in an order that depends on their names alone, so that a cap takes a fair sample."""
    found = [
        p
        for p in root.rglob("*")
        if p.is_file() and not p.is_symlink() and re.search(source.path, str(p).removesuffix(".gz"))
    ]
    return sorted(found, key=lambda p: hashlib.md5(str(p.relative_to(root)).encode()).digest())


def documents_of(source: Source, work: Path, pool, seen: set[str], scale: float):
    """Yield the cleaned documents of one package until its share is full; `seen` holds the paragraphs met so far."""
    jobs = [(source, path) for path in files_of(source, unpack(source, work))]
    size = 0
    for documents in pool.imap(read_file, jobs, chunksize=8):
        for paragraphs in documents:
            fresh = [p for p in paragraphs if (k := key(p)) not in seen and not seen.add(k)]
            text = "\n\n".join(fresh)
            shortest = 40 if source.kind == "dictionary" or source.reader == "fortune" else SHORTEST_DOCUMENT
            if len(text) < shortest:
                continue
            yield text
            size += len(text)
            if size > scale * source.megabytes * 1e6:
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="where packages are downloaded and unpacked")
    parser.add_argument("--out", type=Path, required=True, help="corpus.jsonl.xz")
    parser.add_argument("--scale", type=float, default=1.0, help="of every package's share, for a smaller corpus")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    seen: set[str] = set()
    with Pool(arguments.processes) as pool, lzma.open(arguments.out, "wt", preset=6) as out:
        for source in sources():
            count = size = 0
            for text in documents_of(source, arguments.work, pool, seen, arguments.scale):
                out.write(
                    json.dumps({"package": source.package, "kind": source.kind, "text": text}, ensure_ascii=False)
                    + "\n"
                )
                count, size = count + 1, size + len(text)
            print(f"{source.package:28} {source.kind:10} {count:7} documents {size / 1e6:6.1f} MB", flush=True)


if __name__ == "__main__":
    main()
