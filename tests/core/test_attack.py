"""A few tries of each kind of benchmarks/attack.py, and random valid files of
benchmarks/files.py.
"""

import random
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import attack

pytestmark = pytest.mark.filterwarnings("ignore")
seeds = st.integers(0, 2**32 - 1)
few = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@few
@given(seeds, st.booleans())
def test_a_mutated_model_is_refused_or_works(tmp_path, seed, fields):
    rng = random.Random(seed)
    path = tmp_path / "model"
    content = rng.choice(attack.saved_models())
    path.write_bytes(content if fields else attack.mutate(content, rng))
    if fields:
        attack.mutate_model(path, rng)
    with np.errstate(all="ignore"):
        assert attack.use_model(path) is None


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return attack.good_files(tmp_path_factory.mktemp("good"))


@settings(few, max_examples=200)
@given(seeds)
def test_a_mutated_file_is_refused_with_one_line_or_read(tmp_path, good, seed):
    rng = random.Random(seed)
    name = rng.choice(sorted(good))
    (tmp_path / name).write_bytes(attack.mutate(good[name], rng))
    assert attack.read_file(tmp_path / name) is None


@settings(few, max_examples=200)
@given(seeds)
def test_a_valid_file_is_read_as_other_libraries_do_or_with_a_note(seed):
    pytest.importorskip("defusedxml")
    # of benchmarks, which imports the libraries of all formats
    files = pytest.importorskip("files")
    with tempfile.TemporaryDirectory() as folder:
        kind, outcome, words = files.compare(seed, Path(folder))
    assert outcome != "SILENT", (kind, words)


@pytest.mark.parametrize("make", attack.estimators(), ids=lambda make: repr(make()))
def test_an_extreme_stream_gives_finite_outputs_or_a_reason(make):
    with np.errstate(all="ignore"):
        wrong = {
            name: attack.use_stream(make(), X) for name, X in attack.streams().items()
        }
    assert not any(wrong.values()), wrong


@pytest.mark.slow
@pytest.mark.parametrize("area", ["kills", "writers"])
def test_kills_and_concurrent_writers_lose_nothing(area, tmp_path):
    for _, tries, failures, _ in attack.AREAS[area](tmp_path, 1, 0.05):
        assert tries > 0
        assert not failures
