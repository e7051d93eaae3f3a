"""Draw the laboratory's tasks from the generator of the training recipe: `python make_tasks.py > tasks.jsonl`."""

import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "deploy/model/train"))
import tasks

EACH = 24

for number in range(EACH):
    for name, kind in tasks.KINDS.items():
        question, answer = kind(random.Random(f"laboratory {name} {number}"))
        print(json.dumps({"kind": name, "question": question, "answer": answer}))
