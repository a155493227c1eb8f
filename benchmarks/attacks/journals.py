"""Journals and plans of a sweep that were damaged or made by somebody hostile.

After each damage of the journal, the sweep must run, give the table of the clean one, and have nothing left to run. Each mutated
plan must run, or be refused with one sentence.
"""

import json
import random
import tempfile
import warnings
from pathlib import Path

from bionica.sweep.journal import seal

from attacks import Row
from attacks.forked import run_forked
from attacks.mutated_plans import mutated_plan, write_files
from bionica import sweep

PLAN = {
    "seeds": 2,
    "times": 3,
    "data": [{"kind": "sparse_uniform", "d": 3, "T": 150, "mixing": "d3"}],
    "network": [
        {
            "name": "TwoCompartmentNICA",
            "published": "d3",
            "grid": {"eta0": [0.1, 0.9], "tau": [0.5, 0.8]},  # 0.9 is refused by the rule: outcomes without an error
        }
    ],
}


def attack(seed, scale=1.0):
    n = max(3, round(300 * scale))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clean = _rows(sweep.run(PLAN, folder / "clean", n_jobs=1, device="cpu"))
        content = (folder / "clean" / "journal.jsonl").read_bytes()
        write_files(folder)

        def mutated(i):
            rng = random.Random(f"{seed} {i}")
            how = MUTATIONS[i % len(MUTATIONS)]
            return _prefixed(how.__name__, _try_journal(folder, how(content, rng), clean))

        def flipped(i):
            rng = random.Random(f"{seed} flip {i}")
            damaged = bytearray(content)
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            return _try_journal(folder, bytes(damaged), clean)

        def planned(i):
            return _try_plan(folder, mutated_plan(random.Random(f"{seed} plan {i}"), i, folder))

        return [
            Row("journals", what, n, *run_forked(range(n), attempt))
            for what, attempt in (("mutated journals", mutated), ("bit flips", flipped), ("mutated plans", planned))
        ]


def _rows(table):
    """What must be the same, as text: NaN is equal to NaN."""
    return [json.dumps({key: value for key, value in row.items() if key != "seconds"}) for row in table]


def _prefixed(name, wrong):
    return wrong and f"{name}: {wrong}"


def _try_journal(folder, content, clean):
    with tempfile.TemporaryDirectory(dir=folder) as output:
        (Path(output) / "journal.jsonl").write_bytes(content)
        again = []
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            if _rows(sweep.run(PLAN, output, n_jobs=1, device="cpu")) != clean:
                return "another table"
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            if _rows(sweep.run(PLAN, output, n_jobs=1, device="cpu", progress=lambda *_: again.append(1))) != clean:
                return "another table the second time"
        if said:
            return f"the second time it said: {said[0].message}"
        return f"{len(again)} cases ran twice" if again else None


def _try_plan(folder, path):
    """The command: exit status 0, or 1 with one sentence. A plan that is too long to run is checked alone."""
    from typer.testing import CliRunner

    from bionica.cli import app

    with tempfile.TemporaryDirectory(dir=folder) as output:
        arguments = ["sweep", str(path), "-o", f"{output}/out", "--jobs", "1", "--device", "cpu"]
        result = CliRunner().invoke(app, [*arguments, "--dry-run"])
        if result.exit_code == 0:
            cost = sum(case.cost for case in sweep.Plan.from_toml(path).cases())
            result = CliRunner().invoke(app, arguments) if cost < 3_000_000 else result
    said = result.stderr.strip()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"{path.read_text(errors='replace')[-150:]!r}: {type(result.exception).__name__}: {result.exception}"
    if result.exit_code == 0:
        return None
    if result.exit_code != 1 or not said.startswith("Error: ") or "\n" in said or len(said) > 1500:
        return f"{path.read_text(errors='replace')[-150:]!r}: exit status {result.exit_code}: {said[:200]!r}"
    return None


# ---------------------------------------------------------------------------------------------- damage


def truncated(content, rng):
    return content[: rng.randrange(len(content))]


def deleted(content, rng):
    start = rng.randrange(len(content))
    return content[:start] + content[start + rng.randrange(1, 400) :]


def inserted(content, rng):
    start = rng.randrange(len(content))
    return content[:start] + rng.randbytes(rng.randrange(1, 400)) + content[start:]


def overwritten(content, rng):
    start, n = rng.randrange(len(content)), rng.randrange(1, 400)
    return content[:start] + rng.randbytes(n) + content[start + n :]


def nulls(content, rng):
    start, n = rng.randrange(len(content)), rng.randrange(1, 4096)
    return content[:start] + bytes(n) + content[start + n :]


def garbage(content, rng):
    return rng.randbytes(rng.randrange(5000))


def lines_of_others(content, rng):
    """Shuffled, duplicated and left-out lines."""
    lines = content.splitlines(keepends=True)
    return b"".join(rng.choices(lines, k=rng.randrange(1, 20)))


def joined(content, rng):
    lines = content.split(b"\n")
    at = rng.randrange(len(lines) - 2)
    lines[at : at + 2] = [lines[at] + lines[at + 1]]
    return b"\n".join(lines)


def halves_swapped(content, rng):
    lines = content.splitlines()
    a, b = rng.sample(range(len(lines)), 2)
    cut = rng.randrange(10, 200)
    lines[a], lines[b] = lines[a][:cut] + lines[b][cut:], lines[b][:cut] + lines[a][cut:]
    return b"\n".join(lines) + b"\n"


def line_ends(content, rng):
    return content.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\n", b" \n", b"\n\r", b"\x0b\n", b"\xe2\x80\xa8"]))


def encodings(content, rng):
    text = content.decode()
    return rng.choice(
        [
            b"\xef\xbb\xbf" + content,
            text.encode("utf-16"),
            text.encode("utf-32-le"),
            content.replace(b"ok", b"\xff\xfe"),
        ]
    )


def huge_line(content, rng):
    n = rng.randrange(10**6, 2 * 10**7)
    return (
        content[: len(content) // 2] + rng.choice([b"x", b"[", b'{"a":', b"9"]) * n + rng.choice([b"", b"\n"]) + content
    )


def deep(content, rng):
    n = rng.choice([500, 5000, 100_000])
    line = rng.choice([b"[" * n + b"]" * n, b'{"case":' * n + b"1" + b"}" * n])
    return content + rng.choice([line + b"\n", _forged(b'{"case": ' + line)])


def of_another_version(content, rng):
    lines = [json.loads(line) for line in content.splitlines()]
    for line in lines:
        line["case"] = f"{rng.getrandbits(64):016x}"
    return b"".join(map(seal, map(_open, lines)))


def without_checksums(content, rng):
    return b"".join(json.dumps(_open(json.loads(line))).encode() + b"\n" for line in content.splitlines())


def wrong_types(content, rng):
    """Lines whose checksum is right, and that hold what no sweep writes."""
    lines = [_open(json.loads(line)) for line in content.splitlines()]
    for _ in range(rng.randrange(1, 4)):
        line = rng.choice(lines)
        key = rng.choice(["case", "status", "t", "error", "last_tenth", "repairs", "seconds", "versions", "machine"])
        values = [
            {},
            [[]],
            [{}],
            True,
            -1,
            10**30,
            {"a": 1},
            "\ud800" if key == "t" else [None],
            ["1"],
            [1, 2],
            [0.5],
            3,
        ]
        if rng.random() < 0.2:
            line.pop(key, None)
        else:
            line[key] = rng.choice(values)
    return b"".join(map(seal, lines))


def other_bodies(content, rng):
    """Lines whose checksum is right, and that are no results."""
    bodies = [
        b"{",
        b'{"damaged": -5',
        b'{"damaged": 1e999',
        b'{"damaged": true',
        b'{"case": NaN',
        b'{"": ""',
        b'{"a": "\\ud800"',
    ]
    bodies.append(b'{"repairs": ' + b"9" * 5000)
    return b"".join(_forged(rng.choice(bodies)) for _ in range(rng.randrange(1, 5))) + content


def _open(body):
    return {key: value for key, value in body.items() if key != "checksum"}


def _forged(text):
    """A line with a right checksum, whatever stands before it."""
    from bionica.sweep.journal import _checksum

    return text + b', "checksum": "%s"}\n' % _checksum(text)


MUTATIONS = (
    truncated, deleted, inserted, overwritten, nulls, garbage, lines_of_others, joined, halves_swapped, line_ends, encodings,
    huge_line, deep, of_another_version, without_checksums, wrong_types, other_bodies,
)  # fmt: skip
