"""Generated tasks: each kind draws a question and its one right answer from a seeded generator.

A kind is a function of a `random.Random` that returns (question, answer). Every example can be written in plain form
(`question` newline `answer`) or as the turns of a chat; see `documents.py`.
"""

import json
import random

WORDS = (
    "red blue green tall cold fast left near soft wide dark loud apple river stone cloud chair table window garden "
    "paper silver yellow orange summer winter music number letter bridge forest island market mirror pencil pocket "
    "rabbit tiger horse eagle salmon butter coffee pepper sugar bread cheese lemon cherry copper iron gold wood glass"
).split()
NAMES = "Tom Ann Sam Eva Max Lily Ben Mia Leo Zoe Paul Nina Jack Ruth Adam Clara".split()
THINGS = "apples coins books cards pens stamps shells marbles stickers cookies".split()
MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
CITIES = "Paris Rome Oslo Madrid Berlin Vienna Lisbon Dublin Prague Athens".split()


def addition(r: random.Random) -> tuple[str, str]:
    a, b = r.randrange(1000), r.randrange(1000)
    return r.choice(["{} + {} = ?", "What is {} + {}?", "Add {} and {}."]).format(a, b), str(a + b)


def subtraction(r: random.Random) -> tuple[str, str]:
    b, a = sorted((r.randrange(1000), r.randrange(1000)))
    return r.choice(["{} - {} = ?", "What is {} - {}?", "What is {} minus {}?"]).format(a, b), str(a - b)


def multiplication(r: random.Random) -> tuple[str, str]:
    a, b = r.randrange(2, 100), r.randrange(2, 10)
    return r.choice(["{} * {} = ?", "What is {} times {}?", "What is {} * {}?"]).format(a, b), str(a * b)


def reversal(r: random.Random) -> tuple[str, str]:
    letters = [r.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(r.randrange(3, 9))]
    question = r.choice(["Reverse: {}", "Write these letters backwards: {}"])
    return question.format(" ".join(letters)), " ".join(letters[::-1])


def look_up(r: random.Random) -> tuple[str, str]:
    table = {key: r.randrange(100) for key in r.sample(WORDS, r.randrange(3, 7))}
    key = r.choice(list(table))
    return r.choice(["{} What is the value of {}?", "Given {}, look up {}."]).format(json.dumps(table), key), str(
        table[key]
    )


def sorting(r: random.Random) -> tuple[str, str]:
    numbers = [r.randrange(100) for _ in range(r.randrange(3, 8))]
    question = r.choice(["Sort: {}", "Sort these numbers: {}"]).format(" ".join(map(str, numbers)))
    return question, " ".join(map(str, sorted(numbers)))


def word_sorting(r: random.Random) -> tuple[str, str]:
    words = r.sample(WORDS, r.randrange(3, 6))
    return f"Put these words in alphabetical order: {', '.join(words)}", ", ".join(sorted(words))


def word_problem(r: random.Random) -> tuple[str, str]:
    """Two steps, written out, then the answer."""
    name, things = r.choice(NAMES), r.choice(THINGS)
    a, b, c = r.randrange(10, 90), r.randrange(1, 10), r.randrange(1, 60)
    verb_less, verb_more = r.choice(["loses", "gives away", "sells"]), r.choice(["finds", "buys", "gets"])
    question = (
        f"{name} has {a} {things}, {verb_less} {b} and then {verb_more} {c}. How many {things} does {name} have now?"
    )
    return question, f"{a} - {b} = {a - b}. {a - b} + {c} = {a - b + c}. {name} has {a - b + c} {things}."


def price_problem(r: random.Random) -> tuple[str, str]:
    name, things = r.choice(NAMES), r.choice(THINGS)
    count, price, paid = r.randrange(2, 10), r.randrange(2, 10), 100
    cost, change = count * price, paid - count * price
    question = f"{name} buys {count} {things} at {price} dollars each and pays with {paid} dollars. What is the change?"
    return question, f"{count} * {price} = {cost}. {paid} - {cost} = {change}. The change is {change} dollars."


def iso_date(r: random.Random) -> tuple[str, str]:
    year, month, day = r.randrange(1900, 2100), r.randrange(1, 13), r.randrange(1, 29)
    name = MONTHS[month - 1]
    written = r.choice([f"{day:02}/{month:02}/{year}", f"{day} {name} {year}", f"{name} {day}, {year}"])
    return r.choice(["Write the date {} in ISO format.", "ISO date of {}?"]).format(
        written
    ), f"{year}-{month:02}-{day:02}"


def python_max(r: random.Random) -> tuple[str, str]:
    numbers = [r.randrange(100) for _ in range(r.randrange(3, 8))]
    function = r.choice(["max", "min", "len"])
    return f">>> {function}({numbers})", str({"max": max, "min": min, "len": len}[function](numbers))


def python_count(r: random.Random) -> tuple[str, str]:
    letters = [r.choice("abcd") for _ in range(r.randrange(3, 10))]
    letter = r.choice("abcd")
    return f">>> {letters}.count('{letter}')", str(letters.count(letter))


def python_index(r: random.Random) -> tuple[str, str]:
    words = r.sample(WORDS, r.randrange(3, 7))
    index = r.randrange(len(words))
    return f">>> {words}[{index}]", repr(words[index])


def comparison(r: random.Random) -> tuple[str, str]:
    a, b = r.sample(range(1000), 2)
    side = r.choice(["larger", "smaller"])
    return f"Which number is {side}: {a} or {b}?", str(max(a, b) if side == "larger" else min(a, b))


def parity(r: random.Random) -> tuple[str, str]:
    n = r.randrange(10_000)
    kind = r.choice(["even", "odd"])
    return f"Is {n} {kind}?", "Yes" if (n % 2 == 0) == (kind == "even") else "No"


def upper_case(r: random.Random) -> tuple[str, str]:
    words = r.sample(WORDS, r.randrange(2, 6))
    return f"Write in upper case: {' '.join(words)}", " ".join(words).upper()


def repetition(r: random.Random) -> tuple[str, str]:
    text = " ".join(r.choice(WORDS + NAMES) for _ in range(r.randrange(3, 10)))
    return r.choice(["Repeat: {}", "Say this again: {}"]).format(text), text


def progression(r: random.Random) -> tuple[str, str]:
    start, step = r.randrange(50), r.randrange(1, 13)
    numbers = [start + i * step for i in range(5)]
    return f"What comes next: {', '.join(map(str, numbers[:4]))}, ...?", str(numbers[4])


def in_words(n: int) -> str:
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + (f"-{ONES[n % 10]}" if n % 10 else "")
    return f"{ONES[n // 100]} hundred" + (f" and {in_words(n % 100)}" if n % 100 else "")


def number_words(r: random.Random) -> tuple[str, str]:
    n = r.randrange(1000)
    if r.random() < 0.5:
        return f"Write {n} in words.", in_words(n)
    return f"Write {in_words(n)} in digits.", str(n)


def week_day(r: random.Random) -> tuple[str, str]:
    day, days = r.randrange(7), r.randrange(1, 8)
    return f"Today is {DAYS[day]}. What day is it in {days} day{'s' * (days > 1)}?", DAYS[(day + days) % 7]


def to_json(r: random.Random) -> tuple[str, str]:
    record = {"name": r.choice(NAMES), "age": r.randrange(5, 90), "city": r.choice(CITIES)}
    fields = r.sample(list(record), r.randrange(2, 4))
    text = "; ".join(f"{field}: {record[field]}" for field in fields)
    return f"Write as JSON: {text}", json.dumps({field: record[field] for field in fields})


# The harder the kind, the larger its share.
WEIGHTS = {
    addition: 3, subtraction: 3, multiplication: 3, sorting: 2, word_sorting: 2, word_problem: 2.5, price_problem: 1.5,
    python_count: 2, progression: 2, reversal: 1.5, look_up: 1, iso_date: 1, python_max: 1.5, python_index: 1.5,
    comparison: 1, parity: 0.5, upper_case: 1, repetition: 1, number_words: 1, week_day: 0.7, to_json: 1,
}  # fmt: skip
KINDS = {kind.__name__: kind for kind in WEIGHTS}


def draw(r: random.Random) -> tuple[str, str]:
    """One example of a kind drawn by weight."""
    return r.choices(list(WEIGHTS), list(WEIGHTS.values()))[0](r)
