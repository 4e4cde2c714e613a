"""Lines that one unit may bring into a file, and whether each is *malformed*: no record at all.

In a malformed line a refusal is allowed, before anything is charged. All others must be read like
any other row.
"""

import json
from random import Random
from typing import Any

from twins.odd_values import MARK

Line = tuple[str, bool]


def _deep(levels: int) -> str:
    return "[" * levels + "]" * levels


def _in_capitals(rng: Random, item: str, other: str) -> str:
    """An object whose keys are like those of others, but for their capitals."""
    who, change = f'"odd {MARK}"', [str.upper, str.title, str.lower]
    pairs = [(rng.choice(["who", "who", "WHO", "Who"]), who)]
    pairs += [(rng.choice(change)(key), value) for key, value in (("tag", item), ("tag_1", other))]
    kept = [pair for pair in pairs if rng.random() < 0.6]
    return "{" + ", ".join(f'"{key}": {value}' for key, value in kept) + "}"


def odd_json(rng: Random, items: list[Any]) -> Line:
    """A line among objects with the keys `who`, `tag` and `tag_1`."""
    item, other = (json.dumps(rng.choice(items)) for _ in range(2))
    who = f'"who": "odd {MARK}"'
    records = [
        *("3", '"x"', "[]", "null", "{}", "true", '["who", "tag"]', '[{"tag": 1}]', "-0.5e3"),
        *[_in_capitals(rng, item, other) for _ in range(16)],
        f'{{"WHO": "x {MARK}", {who}, "tag": {item}, "tag_1": {item}}}',
        f'{{{who}, "tag": {item}, "tag": {other}, "tag_1": {other}, "tag_1": {item}}}',
        f'{{{who}, "who": "again {MARK}", "tag": {item}, "tag_1": {item}}}',
        f'{{{who}, "tag": {item}, "tag_1": {item}, "more": {{"deep": {_deep(80)}}}}}',
        f'{{{who}, "tag": {item}, "tag_1": {item}, "": 1, "tag_2": 1e999, "a\\u0000b": "\\u0000"}}',
        f'{{{who}, "tag": null, "tag_1": null}}',
        f"{{{who}}}",
        f'  {{ {who} ,\t"tag":{item},"tag_1" :{item}}}  ',
        f'{{{who}, "tag.x": 1, "$": 2, "/tag": 3, "tag": {item}, "tag_1": {item}}}',
        f'{{"\\u0077ho": "odd {MARK}", "\\u0074ag": {item}, "ta\\u0067_1": {item}}}',
        f'{{{who}, "tag": {item}, "tag_1": {item}, "wide": "{"x" * 3 * 10**6}"}}',
        "{" + ", ".join(f'"key {at}": {at}' for at in range(300)) + f", {who}}}",
    ]
    malformed = [
        f'{{{who}, "tag": 7, "tag_1": 7}}' if item.startswith('"') else f'{{{who}, "tag": "7"}}',
        f'{{{who}, "tag": {{"a": {item}}}, "tag_1": [{item}]}}',
        f'{{{who}, "tag": true, "tag_1": false}}',
        f'{{"who": 5, "tag": {item}, "tag_1": {item}}}',
        f'{{{who}, "tag": {item}, "ta',
        f'{{{who}, "tag": {item}}} {{{who}}}',
        f"{{'who': '{MARK}'}}",
        MARK,
        "",
        f'{{{who}, "deep": {_deep(5000)}}}',
    ]
    return _one_of(rng, records, malformed)


def rows_in_a_field(item: object) -> str:
    """A row of three fields, one of which is 1 MB of text that looks like rows."""
    return f'"{MARK}","{item}","' + "a\nb,c,d\n" * 125_000 + '"'


def odd_csv(rng: Random, items: list[Any]) -> Line:
    """A line below the header who,tag,tag_1; an item with a line break in it would tear it."""
    item = rng.choice([each for each in items if not set(str(each)) & set('\r\n",')] or ["fig"])
    records = [
        f'"odd {MARK}","{item}","{item}"',
        f'"odd ""{MARK}""",{item},{item}',
        f"#{MARK},{item},{item}",
        f'odd {MARK},"{item}\n","two\nlines"',
        f'odd {MARK},{item}," ""quoted"", and not "',
        f"\\{MARK},{item},\\",
        f'"{MARK}' + '""' * 500_000 + f'",{item},{item}',
        f"{MARK}{'z' * 3 * 10**6},{item},{item}",
        f'"{MARK}","' + "a\n" * 300_000 + f'",{item}',
        rows_in_a_field(item),
        ",,",
        '"","",""',
        f"{MARK},,{item}",
        f"'{MARK},{item},'",
        f"{MARK};|,{item};,{item}|",
    ]
    malformed = [
        f"{MARK},{item}",
        f"{MARK},{item},{item},{item}",
        f'"{MARK},{item},{item}',
        f'{MARK}",{item},{item}',
        f'"{MARK}"x,{item},{item}',
        f"{MARK},{item},{item}\r",
        f"{MARK}\r,{item},{item}",
        "",
    ]
    return _one_of(rng, records, malformed)


def odd_european(rng: Random, items: list[Any]) -> Line:
    """The same, or a record with what cannot be decoded; here it is a letter of no encoding."""
    item = rng.choice([each for each in items if not set(str(each)) & set('\r\n",')] or ["fig"])
    odd = [
        f"odd {MARK},\udc81,{item}",
        f"odd \udc81{MARK},{item},{item}",
        f'"{MARK}","{item}\udc81","\udc81"',
        f"\udc81,\udc81,\udc81{MARK}",
        f"odd {MARK},{item},\ufffd\udc81",
        f"\ufdd0{MARK},{item},\ufdd0",
        f"odd {MARK},{item},{chr(0xDC81) * 10**5}",
    ]
    return (rng.choice(odd), False) if rng.random() < 0.6 else odd_csv(rng, items)


def odd_fimi(rng: Random, items: list[Any]) -> Line:
    """A line of a FIMI file."""
    a, b = rng.choice(items), rng.choice(items)
    records = [
        *(f"{a} {b} {a} {a}", f"{a}", f"  {a}   {b} ", f"{a}\t{b}", "", " "),
        f"0{a} {b}",
        f"{a} 00{a} 000{b}",
        f"{2**62} {2**63 - 1} {a}",
        f"{2**63} {a}",
        f"{10**400} {a}",
        " ".join(str(each) for each in range(1500)),
        f"{a} " * 10**5,
        f"{a} " + "9" * 10**5,
    ]
    malformed = [f"{a} {MARK}", f"-1 {a}", f"{a}.0", f"{a},{b}", f"٧ {a}", f"{a}\0", f'"{a}"']
    return _one_of(rng, records, [*malformed, f"{a}\u2028", f"{a}\x01{b}", f"{a}\r", f"{a}\r{b}"])


def _one_of(rng: Random, records: list[str], malformed: list[str]) -> Line:
    is_malformed = rng.random() < 0.2
    return rng.choice(malformed if is_malformed else records), is_malformed
