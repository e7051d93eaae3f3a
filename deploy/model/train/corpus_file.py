"""Read the corpus file that `corpus.py` writes."""

import json
import lzma
from pathlib import Path


def corpus(path: Path):
    """Yield its documents: {"package", "kind", "text"}."""
    with lzma.open(path, "rt") as file:
        yield from map(json.loads, file)
