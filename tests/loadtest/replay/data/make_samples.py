"""Writes small samples in the formats of public request traces: made up, so that the tests of the readers need no
recorded trace beside them. Same seed, same bytes.

usage: make_samples.py FOLDER
"""
import datetime
import json
import pathlib
import random
import sys

ROWS = 60
folder = pathlib.Path(sys.argv[1])
draw = random.Random(20)


def arrivals(mean_gap):  # seconds; bursts: gaps are gamma-distributed with a coefficient of variation of 2
    at = 0.0
    for _ in range(ROWS):
        yield at
        at += draw.gammavariate(0.25, 4 * mean_gap)


def lengths(median_in, median_out):
    return max(1, int(draw.lognormvariate(0, 1) * median_in)), max(1, int(draw.lognormvariate(0, 1) * median_out))


def write(name, lines):
    (folder / name).write_text("\n".join(lines) + "\n")


def stamp(at, digits, zone):
    moment = datetime.datetime(2023, 11, 16, 18, 17, 3) + datetime.timedelta(seconds=int(at))
    return f"{moment:%Y-%m-%d %H:%M:%S}.{int(at % 1 * 10**digits):0{digits}d}{zone}"


azure = []
for at in arrivals(0.4):
    azure.append((at, *lengths(1500, 13)))
header = "TIMESTAMP,ContextTokens,GeneratedTokens"
write("azure_2023.csv", [header] + [f"{stamp(at, 7, '')},{i},{o}" for at, i, o in azure])
write("azure_2024.csv", [header] + [f"{stamp(at, 6, '+00:00')},{i},{o}" for at, i, o in azure])

# Every tenth row failed when it was recorded: no answer.
rows = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"]
for n, at in enumerate(arrivals(3)):
    i, o = lengths(300, 100)
    o = 0 if n % 10 == 9 else o
    rows.append(f"{int(at)},ChatGPT,{i},{o},{i + o},{'API log' if n % 3 else 'Conversation log'}")
write("burstgpt.csv", rows)


# Sessions: each turn repeats the blocks of the one before and adds its own.
def chat_rows(block_tokens, mean_gap, median_in):
    sessions, next_block = [[0]], 1
    for at in arrivals(mean_gap):
        blocks = list(draw.choice(sessions[-8:]))
        for _ in range(max(1, int(draw.lognormvariate(0, 0.7) * median_in / block_tokens))):
            blocks.append(next_block)
            next_block += 1
        sessions.append(blocks)
        tokens = len(blocks) * block_tokens - draw.randrange(block_tokens)
        yield at, tokens, lengths(1, 120)[1], blocks


write("mooncake.jsonl", [
    json.dumps({"timestamp": int(at) * 1000, "input_length": i, "output_length": o, "hash_ids": b})
    for at, i, o, b in chat_rows(512, 0.5, 1200)])
write("qwen.jsonl", [
    json.dumps({"chat_id": n, "parent_chat_id": n - 1, "timestamp": round(at, 3), "input_length": i,
                "output_length": o, "type": "text", "turn": 1, "hash_ids": b})
    for n, (at, i, o, b) in enumerate(chat_rows(16, 0.2, 60))])
