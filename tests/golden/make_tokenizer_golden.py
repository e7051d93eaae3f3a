"""Writes what the `tokenizers` package makes of 10,000 lines, for tests/common/text.

    python tests/golden/make_tokenizer_golden.py            # needs: pip install tokenizers

Files, in tests/golden/tokenizer/:
  lines.txt            one line of bytes each, `\\n` and `\\` escaped; some are broken UTF-8
  qwen_like.json       a small tokenizer trained here: Qwen's pre-tokenizer pattern and NFC
  NAME.hashes          per line: FNV-1a 64 of the ids as little-endian u32, in hex
  NAME.ids             the ids of every 50th line, to show where a difference begins
NAME is qwen_like, and lynx_mini for the shipped deploy/model/tokenizer.json.
Broken UTF-8 is repaired with errors="replace" before the package sees it, as our tokenizer does by itself.
"""

import random
import re
import struct
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "golden" / "tokenizer"
LINES = 10_000
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
           r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CJK = "永和九年歲在癸丑暮春之初會于會稽山陰之蘭亭修禊事也日本語のテキスト한국어문장입니다"
EMOJI = "🙂🚀👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇩🇪❤️🔥"
ODD = "\u00a0\u2003\u3000\u200b\u200d\u0301\u1100\u1161é\u0065\u0301ﬁŉſKÅΩ\u0085\u180e\t\r\x00\x7f½²٣๓Ⅷ"


def source_lines():
    for pattern in ("**/*.h", "**/*.cc", "**/*.py", "**/*.md", "**/*.capnp"):
        for path in sorted(ROOT.glob(pattern)):
            if "build" not in path.relative_to(ROOT).parts:
                yield from path.read_text(encoding="utf-8", errors="replace").splitlines()


def make_lines(rng):
    text = [line for line in source_lines() if line.strip()]
    pools = ["abcdefghijklmnopqrstuvwxyz ", "ABCdef 0123456789", "(){}[]<>=+-*/;:.,'\"!?#$%&@^|~_\\ ", CJK, EMOJI, ODD,
             CJK + " " + EMOJI + "ab", "äöüßÄÖÜñçøåþ ", "Привет мир ", "مرحبا ", "שלום ", "हिन्दी ", " \n\r\t"]
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_", "<|"]
    for _ in range(LINES):
        kind = rng.randrange(10)
        if kind < 4:
            line = rng.choice(text)
        elif kind < 5:
            line = "\n".join(rng.choice(text) for _ in range(rng.randrange(1, 4)))
        else:
            line = "".join(rng.choice(rng.choice(pools)) if rng.random() < 0.3 else rng.choice(pools[kind])
                           for _ in range(rng.randrange(1, 80)))
        if rng.random() < 0.05:
            at = rng.randrange(len(line) + 1)
            line = line[:at] + rng.choice(specials) + line[at:]
        data = line.encode("utf-8", errors="replace")
        if kind == 9 or rng.random() < 0.05:
            broken = bytearray(data)
            for _ in range(rng.randrange(1, 4)):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            data = bytes(broken)
        yield data[:400]


def escape(data):
    return data.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")


def unescape(data):
    return re.sub(rb"\\(.)", lambda match: b"\n" if match[1] == b"n" else match[1], data, flags=re.S)


def qwen_like(lines):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=2000, show_progress=False,
                                  special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([line.decode("utf-8", errors="replace") for line in lines], trainer=trainer)
    return tokenizer


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def write_expected(name, tokenizer, lines):
    ids = [tokenizer.encode(line.decode("utf-8", errors="replace"), add_special_tokens=False).ids for line in lines]
    hashes = (f"{fnv1a(struct.pack(f'<{len(row)}I', *row)):016x}" for row in ids)
    (OUT / f"{name}.hashes").write_text("\n".join(hashes) + "\n")
    (OUT / f"{name}.ids").write_text("".join(" ".join(map(str, row)) + "\n" for row in ids[::50]))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    kept = OUT / "lines.txt"
    if kept.exists():  # the lines stay when only a tokenizer changes
        lines = [unescape(row) for row in kept.read_bytes().split(b"\n")[:-1]]
    else:
        lines = list(make_lines(random.Random(2)))
        kept.write_bytes(b"".join(escape(line) + b"\n" for line in lines))
    small = OUT / "qwen_like.json"
    if not small.exists():
        qwen_like(lines).save(str(small), pretty=False)
    write_expected("qwen_like", Tokenizer.from_file(str(small)), lines)
    write_expected("lynx_mini", Tokenizer.from_file(str(ROOT / "deploy" / "model" / "tokenizer.json")), lines)


if __name__ == "__main__":
    main()
