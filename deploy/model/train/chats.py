"""Conversations made from the corpus and from a small table of small talk, as (user, assistant) turns."""

import json
import random
import re
from itertools import pairwise
from pathlib import Path

SMALL_TALK = json.loads(Path(__file__).with_name("small_talk.json").read_text())
LANGUAGES = {
    "golang-1.19-src": "go", "rust-src": "rust", "libpython3.11-stdlib": "python", "python3-django": "python",
    "python3-sympy": "python", "libboost1.81-dev": "cpp",
}  # fmt: skip
SHOWN_NAME = {"go": "Go", "rust": "Rust", "python": "Python", "cpp": "C++"}

Turn = tuple[str, str]


def small_talk(r: random.Random) -> Turn:
    entry = r.choice(SMALL_TALK)
    return r.choice(entry["user"]), r.choice(entry["assistant"])


def shorten(text: str, most: int) -> str:
    """The leading whole sentences of `text` that fit in `most` characters; empty if not even one does."""
    if len(text) <= most:
        return text
    end = max(text.rfind(mark, 0, most) for mark in (". ", "? ", "! "))
    return text[: end + 1] if end > 0 else ""


def definition(entry: str, r: random.Random) -> Turn | None:
    """From `word: n 1: first sense; "example" 2: ...` the first sense."""
    word, _, body = entry.partition(": ")
    body = re.sub(r"^(<[^>]+>|(n|v|adj|adv)\b)\s*", "", body)
    sense = re.split(r"\s\d\d?:\s", re.sub(r"^1:\s", "", body.strip()))[0].strip(" ;")
    sense = shorten(sense, 240)
    if len(sense) < 20 or not re.fullmatch(r"[A-Za-z][A-Za-z -]{1,30}", word):
        return None
    return r.choice(["What does {} mean?", "Define {}.", "What is {}?", "Define the word {}."]).format(word), sense


def continuation(paragraph: str, r: random.Random) -> Turn | None:
    sentences = re.split(r"(?<=[.!?])\s+", paragraph)
    if len(sentences) < 3:
        return None
    cut = r.randrange(1, min(3, len(sentences) - 1) + 1)
    rest = shorten(" ".join(sentences[cut:]), 500)
    question = r.choice(["Continue: {}", "Continue this text: {}", "What comes after this? {}"])
    return (question.format(" ".join(sentences[:cut])), rest) if rest else None


def explanation(heading: str, paragraph: str, r: random.Random) -> Turn | None:
    """A heading asks, the paragraph below it answers."""
    answer = shorten(paragraph, 500)
    if not re.fullmatch(r"[A-Z][A-Za-z' -]{5,50}", heading) or len(answer) < 80:
        return None
    return r.choice(["Tell me about: {}", "Explain: {}", "Write about: {}"]).format(heading), answer


def code_block(block: str, language: str, r: random.Random) -> Turn | None:
    if not 80 < len(block) < 700 or "\n" not in block:
        return None
    question = r.choice(["Show me some {} code.", "Write some {} code.", "Give me an example of {} code."])
    return question.format(SHOWN_NAME[language]), f"```{language}\n{block.strip()}\n```"


def turns_of(document: dict, r: random.Random) -> list[Turn]:
    """The conversations, at most four, that one corpus document gives."""
    paragraphs = document["text"].split("\n\n")
    turns: list[Turn | None] = []
    if document["package"] in ("dict-wn", "dict-foldoc"):
        turns = [definition(paragraphs[0], r)]
    elif document["package"] in LANGUAGES:
        turns = [
            code_block(p, LANGUAGES[document["package"]], r) for p in r.sample(paragraphs, min(2, len(paragraphs)))
        ]
    elif document["package"] == "fortunes":
        turns = [(r.choice(["Tell me a saying.", "Say something wise.", "Tell me something funny."]), document["text"])]
    elif document["kind"] == "prose":
        pairs = list(pairwise(paragraphs))
        r.shuffle(pairs)
        turns = [explanation(*pair, r) for pair in pairs[:12]]
        turns += [continuation(p, r) for p in r.sample(paragraphs, min(4, len(paragraphs)))]
    return [turn for turn in turns if turn][:4]
