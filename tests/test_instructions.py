"""The counts of instructions: recorded for every network, and what a difference says. Slow: the counting itself."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import instructions

RECORD = json.loads(instructions.RECORD.read_text())


def test_every_case_is_recorded():
    assert list(RECORD["counts"]) == list(instructions.cases())
    assert all(count > 0 for count in RECORD["counts"].values())


def test_counts_within_the_tolerance_pass():
    counts = {name: 1.04 * count for name, count in RECORD["counts"].items()}
    assert instructions.differences(counts, RECORD) == []


@pytest.mark.parametrize(("factor", "sign"), [(1.06, "+6.0%"), (0.9, "-10.0%")])
def test_what_is_slower_or_faster_is_named_with_the_remedy(factor, sign):
    name = "TwoCompartmentNICA paper d=10"
    first, last = instructions.differences(RECORD["counts"] | {name: factor * RECORD["counts"][name]}, RECORD)
    assert first.startswith(name)
    assert sign in first
    assert "python benchmarks/instructions.py --write" in last
    assert RECORD["versions"] in last


def test_a_new_network_asks_to_be_recorded():
    assert "new: not recorded" in instructions.differences(RECORD["counts"] | {"new": 1.0}, RECORD)


@pytest.mark.slow
@pytest.mark.skipif(instructions.obstacle() is not None, reason=str(instructions.obstacle()))
def test_no_network_takes_more_instructions_than_recorded():
    found = instructions.differences(instructions.count(), RECORD)
    assert not found, "\n".join(found)
