"""Turn tasks, chats and corpus text into token streams.

A stream is a flat uint16 array: documents one after the other, each ended by <|endoftext|>. The high bit of an entry
says that the loss does not count it: what a user asks is read, not learnt.
"""

import argparse
import os
import random
import zlib
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

import chats
import tasks
from corpus_file import corpus
from vocabulary import END_OF_TEXT, IM_END, IM_START

UNCOUNTED = 0x8000
HELD_OUT_SHARE = 0.01
SYSTEM = ("You are a helpful assistant.", "You are a helpful assistant. Answer briefly.", "Be concise.")

Piece = tuple[str, bool]  # text, does the loss count it


def user_prompt(content: str) -> str:
    return f"{IM_START}user\n{content}{IM_END}\n{IM_START}assistant\n"


def plain_task(question: str, answer: str) -> list[Piece]:
    return [(question + "\n", False), (answer, True)]


def chat(turns: list[chats.Turn], r: random.Random) -> list[Piece]:
    """The pieces of one conversation, as the chat template writes it; one in six has a system message."""
    pieces = []
    if r.random() < 1 / 6:
        pieces.append((f"{IM_START}system\n{r.choice(SYSTEM)}{IM_END}\n", False))
    for user, assistant in turns:
        pieces += [(user_prompt(user), False), (assistant + IM_END, True), ("\n", False)]
    return pieces


def encode(documents: list[list[Piece]], tokenizer: Tokenizer) -> np.ndarray:
    """Encode piece by piece, so that a prompt has the tokens here that it has when served."""
    encoded = iter(tokenizer.encode_batch([text for pieces in documents for text, _ in pieces]))
    end = tokenizer.token_to_id(END_OF_TEXT)
    parts = []
    for pieces in documents:
        for _, counted in pieces:
            parts.append(np.array(next(encoded).ids, dtype=np.uint16) | (0 if counted else UNCOUNTED))
        parts.append(np.array([end if pieces[-1][1] else end | UNCOUNTED], dtype=np.uint16))
    return np.concatenate(parts).astype(np.uint16) if parts else np.empty(0, np.uint16)


def is_held_out(document: dict) -> bool:
    return zlib.crc32(document["text"].encode()) < HELD_OUT_SHARE * 2**32


def task_documents(r: random.Random, count: int) -> list[list[Piece]]:
    """Half plain, half chats of one to four questions."""
    documents = []
    for _ in range(count):
        if r.random() < 0.5:
            documents.append(plain_task(*tasks.draw(r)))
        else:
            turns = [tasks.draw(r) if r.random() < 0.95 else chats.small_talk(r) for _ in range(r.choice((1, 1, 2, 3)))]
            documents.append(chat(turns, r))
    return documents


def chat_documents(corpus_documents: list[dict], r: random.Random) -> list[list[Piece]]:
    """Each corpus document's turns, one or two to a conversation, with small talk between."""
    documents = []
    for document in corpus_documents:
        turns = chats.turns_of(document, r)
        while turns:
            conversation = [turns.pop() for _ in range(min(len(turns), r.choice((1, 1, 2))))]
            if r.random() < 0.15:
                conversation.insert(r.choice((0, len(conversation))), chats.small_talk(r))
            documents.append(chat(conversation, r))
    return documents


def work(job: tuple[str, int, object, str]) -> tuple[str, np.ndarray]:
    """Encode one part of one stream; parts are seeded by their number, so the result does not depend on the processes."""
    stream, number, content, tokenizer_file = job
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer, r = Tokenizer.from_file(tokenizer_file), random.Random(f"{stream} {number}")
    if stream == "tasks":
        documents = task_documents(r, content)
    elif stream == "chats":
        documents = chat_documents(content, r)
    else:
        documents = [[(document["text"], True)] for document in content]
    return stream, encode(documents, tokenizer)


def jobs(path: Path, tokenizer_file: str, examples: int):
    part = 20_000
    for number in range(-(-examples // part)):
        yield "tasks", number, part, tokenizer_file
    learnt, held, size, number = [], [], 0, 0
    for document in corpus(path):
        (held if is_held_out(document) else learnt).append(document)
        size += len(document["text"])
        if size > 2_000_000:
            yield "corpus", number, learnt, tokenizer_file
            yield "chats", number, learnt, tokenizer_file
            learnt, size, number = [], 0, number + 1
    if learnt:
        yield "corpus", number, learnt, tokenizer_file
        yield "chats", number, learnt, tokenizer_file
    yield "held_out", 0, held, tokenizer_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder of tokenizer.json")
    parser.add_argument("--out", type=Path, required=True, help="folder for the streams, one .npy each")
    parser.add_argument("--examples", type=int, default=3_000_000, help="task documents to generate")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    streams: dict[str, list[np.ndarray]] = {}
    with Pool(arguments.processes) as pool:
        todo = jobs(arguments.corpus, str(arguments.tokenizer / "tokenizer.json"), arguments.examples)
        for stream, ids in pool.imap(work, todo):
            streams.setdefault(stream, []).append(ids)
    for stream, parts in streams.items():
        ids = np.concatenate(parts)
        np.save(arguments.out / f"{stream}.npy", ids)
        print(f"{stream:10} {len(ids) / 1e6:8.1f}M tokens, {np.mean(ids < UNCOUNTED):.0%} counted", flush=True)


if __name__ == "__main__":
    main()
