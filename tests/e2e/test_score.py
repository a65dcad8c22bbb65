"""`tailrace score` against the reference vectors, through the command line, and its errors."""
import json
import subprocess

import pytest

from harness import BIN


def score(*args):
    return subprocess.run([BIN, "score", *args], capture_output=True, text=True, timeout=60)


def test_every_reference_vector_to_nine_digits(shared):
    vectors = json.loads((shared / "vectors/scheduling.json").read_text())["vectors"]
    assert len(vectors) >= 20
    worst = 0.0
    for row in vectors:
        for beta in ("0.1", "0.3", "0.5"):
            done = score("--mu", repr(row["mu"]), "--sigma", repr(row["sigma"]), "--nu", repr(row["nu"]),
                         "--max-tokens", str(row["xmax"]), "--beta", beta, "--json")
            assert done.returncode == 0, done.stderr
            document = json.loads(done.stdout)
            for ours, theirs in (("mean", "mean_truncated"), ("var", "var_090"), ("cvar", "cvar_090"),
                                 ("score", "tie_beta_" + beta.replace(".", "_")), ("median", "median"), ("p_cap", "p_hit_cap")):
                # The capped median is the cap where the law's own median lies beyond it.
                expected = min(row[theirs], row["xmax"]) if ours == "median" else row[theirs]
                error = abs(document[ours] - expected) / abs(expected)
                assert error <= 1e-9, (row, ours, document[ours])
                worst = max(worst, error)
    print(f"worst relative error over {len(vectors)} vectors: {worst:.2e}")


@pytest.mark.parametrize("args, words", [
    (["--sigma", "0.5", "--max-tokens", "100", "--beta", "0.1"], "mu"),
    (["--mu", "5", "--sigma", "0", "--max-tokens", "100", "--beta", "0.1"], "sigma"),
    (["--mu", "5", "--sigma", "-1", "--max-tokens", "100", "--beta", "0.1"], "sigma"),
    (["--mu", "nan", "--sigma", "1", "--max-tokens", "100", "--beta", "0.1"], "mu"),
    (["--mu", "5", "--sigma", "1", "--max-tokens", "0", "--beta", "0.1"], "max-tokens"),
    (["--mu", "5", "--sigma", "1", "--max-tokens", "100"], "beta"),
    (["--mu", "5", "--sigma", "1", "--max-tokens", "100", "--beta", "0.1", "--queue", "5", "--batch", "2"], "beta"),
    (["--mu", "5", "--sigma", "1", "--max-tokens", "100", "--queue", "5", "--batch", "0"], "batch"),
    (["--mu", "5", "--sigma", "1", "--max-tokens", "100", "--beta", "0.1", "--level", "1"], "level"),
    (["--mu", "5", "--sigma", "1", "--max-tokens", "100", "--beta", "0.1", "--method", "magic"], "method"),
])
def test_bad_input_is_one_clear_error(args, words):
    done = score(*args, "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr and len(done.stderr.strip().splitlines()) <= 2, done.stderr


def test_methods_agree_and_the_published_one_repeats_by_seed():
    base = ["--mu", "5", "--sigma", "0.5", "--max-tokens", "2048", "--queue", "100", "--batch", "32", "--json"]
    exact = json.loads(score(*base).stdout)
    table = json.loads(score(*base, "--method", "table").stdout)
    drawn = json.loads(score(*base, "--method", "monte-carlo", "--seed", "3").stdout)
    assert exact["beta"] == pytest.approx(0.3125)
    assert table["score"] == pytest.approx(exact["score"], rel=1e-5)
    assert drawn["score"] == pytest.approx(exact["score"], rel=0.12)
    assert drawn == json.loads(score(*base, "--method", "monte-carlo", "--seed", "3").stdout)
