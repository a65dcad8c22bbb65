"""`tailrace latency` and `tailrace size`: the reference vectors through the command line, and every wrong usage."""
import json
import subprocess

import pytest

from harness import BIN

LLAMA = ["--alpha", "6", "--beta", "0.02", "--gamma", "7.6e-5", "--input", "512", "--output", "128"]
CLOSED_FORM, CHAIN, CHAIN_SIZING, SINGLE_PRECISION = 1e-9, 1e-6, 1e-5, 3e-4


def tailrace(*args):
    return subprocess.run([BIN, *args], capture_output=True, text=True, timeout=60)


def reject(constant):
    raise AssertionError(f"{constant} in a document")


def document(command, *args, code=0):
    done = tailrace(command, *args, "--json")
    assert done.returncode == code, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout, parse_constant=reject)


def service(row, model, **defaults):
    inputs = {**defaults, **row["inputs"]}
    args = ["--model", model]
    for flag, name in (("alpha", "alpha"), ("beta", "beta"), ("gamma", "gamma"), ("input", "in_"), ("output", "out"),
                       ("max-batch", "max_batch"), ("max-queue", "max_queue")):
        if name in inputs:
            args += [f"--{flag}", repr(inputs[name])]
    return args


def close(found, expected, bound):
    assert found == pytest.approx(expected, rel=bound, abs=0)


@pytest.fixture(scope="module")
def vectors(shared):
    rows = json.loads((shared / "vectors/queueing.json").read_text())["vectors"]

    def named(prefix):
        found = [row for row in rows if row["id"].rstrip("0123456789") == prefix]
        assert found, prefix
        return found
    return named


def test_closed_form_latencies_of_the_reference(vectors):
    for row in vectors("A"):
        found = document("latency", *service(row, "closed-form"), "--rate", repr(row["inputs"]["lambda_rps"]))
        for ours, theirs in (("delta_ms", "delta"), ("rho", "rho"), ("iteration_ms", "T_iter"), ("ttft_ms", "TTFT"),
                             ("itl_ms", "ITL"), ("concurrency", "n")):
            close(found[ours], row["expected"][theirs], CLOSED_FORM)
        assert found["stable"] is True and found["out_of_range"] is None


def test_closed_form_sizings_of_the_reference(vectors):
    for row in vectors("B"):
        targets = ["--ttft", repr(row["inputs"]["target_TTFT"]), "--itl", repr(row["inputs"]["target_ITL"])]
        found = document("size", *service(row, "closed-form"), *targets, "--arrival", "100")
        close(found["rate_per_replica"], row["expected"]["lambda_star"], CLOSED_FORM)
        close(found["max_rate"], row["expected"]["lambda_saturation"], CLOSED_FORM)
        close(found["achieved"]["rho"], row["expected"]["rho_star"], CLOSED_FORM)
        assert found["binding"] == row["expected"]["binding"].lower()
        assert found["replicas"] == -(-100 // row["expected"]["lambda_star"])
        assert found["slo"]["source"] == "explicit"


def test_targets_from_a_multiplier_as_in_the_reference(vectors):
    for row in vectors("BK"):
        found = document("size", *service(row, "closed-form"), "--slo-multiplier", repr(row["inputs"]["k"]))
        close(found["slo"]["ttft_ms"], row["expected"]["target_TTFT"], CLOSED_FORM)
        close(found["slo"]["itl_ms"], row["expected"]["target_ITL"], CLOSED_FORM)
        close(found["rate_per_replica"], row["expected"]["lambda_star"], CLOSED_FORM)
        assert found["slo"]["source"] == "multiplier"


def chain_latency(row, expected, bound):
    found = document("latency", *service(row, "chain"), "--rate", repr(row["inputs"]["lambda_rps"]))
    for ours, theirs in (("throughput", "throughput"), ("e2e_ms", "resp"), ("concurrency", "n_serv"), ("ttft_ms", "TTFT"),
                         ("itl_ms", "ITL"), ("max_rate", "max_rate"), ("rho", "rho")):
        if theirs in expected:
            close(found[ours], expected[theirs], bound)


def test_chain_latencies_of_the_reference(vectors):
    for row in vectors("F"):
        chain_latency(row, row["expected"], CHAIN)
    for row in vectors("P"):
        if "lambda_rps" in row["inputs"]:
            chain_latency(row, row["expected"]["port"], CHAIN)
            chain_latency(row, row["expected"]["published"], SINGLE_PRECISION)
    for row in vectors("K"):
        if row["id"] in ("K7", "K8"):
            chain_latency(row, row["expected"]["code"], CHAIN)


def chain_sizing(found, expected, bound):
    close(found["rate_per_target"]["ttft"], expected["lambda_TTFT"], bound)
    close(found["rate_per_target"]["itl"], expected["lambda_ITL"], bound)
    close(found["throughput_per_replica"], expected["per_replica_capacity"], bound)
    close(found["achieved"]["ttft_ms"], expected["TTFT"], bound)
    close(found["achieved"]["itl_ms"], expected["ITL"], bound)
    close(found["max_rate"], expected["max_rate"], bound)


def test_chain_sizings_of_the_reference(vectors):
    rows = [(row, row["expected"], CHAIN_SIZING) for row in vectors("FS")]
    for row in vectors("P"):
        if "target_TTFT" in row["inputs"]:
            rows += [(row, row["expected"]["port"], CHAIN_SIZING), (row, row["expected"]["published"], SINGLE_PRECISION)]
    for row, expected, bound in rows:
        targets = ["--ttft", repr(row["inputs"]["target_TTFT"]), "--itl", repr(row["inputs"]["target_ITL"])]
        chain_sizing(document("size", *service(row, "chain"), *targets), expected, bound)


def test_a_multiplier_may_be_unreachable_for_the_chain_as_in_the_reference(vectors):
    unreachable = 0
    for row in vectors("FK"):
        expected = row["expected"]["code"]
        args = [*service(row, "chain"), "--slo-multiplier", repr(row["inputs"]["k"])]
        if expected["reachable"]:
            chain_sizing(document("size", *args), expected, CHAIN_SIZING)
            continue
        unreachable += 1
        found = document("size", *args, code=3)
        assert found["reachable"] is False and found["rate_per_replica"] is None and found["replicas"] is None
        assert found["binding"] == "ttft"
        close(found["achieved"]["ttft_ms"], expected["TTFT_floor"], CHAIN)
        assert "above its target" in found["reason"]
    assert unreachable > 0


@pytest.mark.parametrize("model", ["closed-form", "chain", "corrected"])
def test_overload_is_an_answer_without_latencies(model):
    found = document("latency", *LLAMA, "--model", model, "--rate", "1000")
    assert found["stable"] is False
    for name in ("iteration_ms", "ttft_ms", "itl_ms", "e2e_ms", "concurrency"):
        assert found[name] is None
    assert 0 < found["max_rate"] < 1000
    done = tailrace("latency", *LLAMA, "--model", model, "--rate", "1000")
    assert done.returncode == 0 and done.stdout.startswith("not stable")


@pytest.mark.parametrize("model", ["closed-form", "chain", "corrected"])
def test_an_idle_replica_is_an_answer(model):
    found = document("latency", *LLAMA, "--model", model, "--rate", "0")
    assert found["stable"] is True and found["concurrency"] == 0 and found["ttft_ms"] > 0


@pytest.mark.parametrize("model", ["closed-form", "chain", "corrected"])
def test_sizing_and_latency_agree(model):
    sized = document("size", *LLAMA, "--model", model, "--ttft", "80", "--itl", "20")
    found = document("latency", *LLAMA, "--model", model, "--rate", repr(sized["rate_per_replica"]))
    assert found["itl_ms"] == pytest.approx(20, rel=1e-6) or found["ttft_ms"] == pytest.approx(80, rel=1e-6)
    assert found["itl_ms"] <= 20 * (1 + 1e-9) and found["ttft_ms"] <= 80 * (1 + 1e-9)


def test_lengths_are_fixed_unless_told_and_the_answer_says_so():
    fixed = document("size", *LLAMA, "--ttft", "100", "--itl", "25")
    varied = document("size", *LLAMA, "--ttft", "100", "--itl", "25", "--output-cv", "1.8")
    assert varied["rate_per_replica"] < 0.95 * fixed["rate_per_replica"]
    assert any("--output-cv 0" in note for note in fixed["assumptions"])
    assert varied["assumptions"] == []
    assert "assumed: every answer has the same length" in tailrace("size", *LLAMA, "--itl", "25").stdout


def test_flags_without_effect_are_named():
    found = document("latency", *LLAMA, "--model", "closed-form", "--rate", "1", "--kv-tokens", "5", "--prefix-hit", "0.5")
    assert any("--kv-tokens, --prefix-hit" in note for note in found["assumptions"])


def test_iterations_are_named():
    plain = document("latency", *LLAMA, "--rate", "10")
    assert plain == document("latency", *LLAMA, "--rate", "10", "--iterations", "output")
    published = document("latency", *LLAMA, "--rate", "10", "--iterations", "output+1")
    assert published["concurrency"] > plain["concurrency"]


def test_no_target_at_all_is_the_largest_stable_rate():
    found = document("size", *LLAMA, "--ttft", "0", "--itl", "0")
    assert found["binding"] == "stability"
    assert found["rate_per_replica"] == pytest.approx(found["max_rate"], rel=1e-6)


def test_contradicting_targets_are_no_error():
    found = document("size", *LLAMA, "--ttft", "1000", "--e2e", "5", "--arrival", "40", code=3)
    assert found["binding"] == "e2e" and found["replicas"] is None
    assert tailrace("size", *LLAMA, "--ttft", "1000", "--e2e", "5").returncode == 3


def test_many_replicas_are_an_answer_up_to_a_limit():
    found = document("size", *LLAMA, "--itl", "20", "--arrival", "1e10")
    assert found["replicas"] == pytest.approx(1e10 / found["rate_per_replica"], rel=1e-6)
    assert "for 0 requests/s" in tailrace("size", *LLAMA, "--itl", "20", "--arrival", "-0").stdout


def test_the_table_says_how_many_and_why():
    done = tailrace("size", *LLAMA, "--ttft", "200", "--itl", "30", "--arrival", "100")
    assert done.returncode == 0
    assert "replicas " in done.stdout and "for 100 requests/s" in done.stdout
    assert "passes its target of 30 ms" in done.stdout


def test_each_target_may_bind_a_percentile_of_its_own():
    """A mix allows what its tightest target allows, which is asked about alone for comparison."""
    mix = {"--ttft": "150@p90", "--itl": "20", "--e2e": "3000@p99"}
    alone = {flag: document("size", *LLAMA, flag, value) for flag, value in mix.items()}
    found = document("size", *LLAMA, *[word for pair in mix.items() for word in pair])
    tightest = min(alone, key=lambda flag: alone[flag]["rate_per_replica"])
    assert found["rate_per_replica"] == pytest.approx(alone[tightest]["rate_per_replica"], rel=0.01)
    assert found["binding"] == tightest[2:]
    assert len({one["rate_per_replica"] for one in alone.values()}) == 3
    slo = found["slo"]
    assert [slo[f"{name}_percentile"] for name in ("ttft", "itl", "e2e")] == ["90", "mean", "99"]
    assert slo["percentile"] is None
    achieved = found["achieved"]
    assert achieved["ttft_p90_ms"] <= 150 and achieved["itl_ms"] <= 20 and achieved["e2e_p99_ms"] <= 3000


def test_a_target_without_a_percentile_has_that_of_the_call():
    both = document("size", *LLAMA, "--ttft", "150", "--itl", "20@mean", "--percentile", "90")
    assert both == document("size", *LLAMA, "--ttft", "150@90", "--itl", "20@mean")
    assert document("size", *LLAMA, "--ttft", "150", "--percentile", "p90")["slo"]["percentile"] == "90"
    assert "P90 of the time to first token" in tailrace("size", *LLAMA, "--ttft", "10@p90").stdout


def test_the_rate_says_when_the_formula_is_not_to_be_trusted():
    inside = document("size", *LLAMA, "--itl", "15")
    assert inside["rate_out_of_range"] is None and inside["achieved"]["out_of_range"] is None
    # Near saturation latencies are not known, and a rate that they end is.
    steep = document("size", *LLAMA, "--ttft", "400", "--itl", "100")
    assert steep["achieved"]["out_of_range"] == "near-saturation" and steep["rate_out_of_range"] is None
    assert "moves the rate by less than 4 %" in steep["reason"]
    lost = document("size", *LLAMA, "--ttft", "400@p99")
    assert lost["rate_out_of_range"] == "near-saturation" and "simulate to be sure" in lost["reason"]


@pytest.mark.parametrize("command, more", [("latency", ["--rate", "1"]), ("size", ["--ttft", "200"]),
                                           ("size", ["--ttft", "200@p90"]), ("size", ["--itl", "5"]), ("size", ["--ttft", "1"])])
def test_answers_of_one_token_have_no_time_between_tokens(command, more):
    one = with_flag(LLAMA, "output", "1")
    code = 3 if more == ["--ttft", "1"] else 0
    found = document(command, *one, *more, code=code)
    found = found.get("achieved", found)
    assert found["itl_ms"] is None and found["itl_p90_ms"] is None
    text = tailrace(command, *one, *more).stdout
    assert "itl                 none  answers of one token have no further one" in text, text
    counted = document("latency", *one, "--iterations", "output+1", "--rate", "1")
    assert counted["itl_ms"] > 0, "published: every token is one after the prefill"


def preset_flags(name):
    presets = json.loads(tailrace("presets", "--json").stdout)["presets"]
    p = next(one for one in presets if one["name"] == name)
    return ["--alpha", repr(p["alpha_ms"]), "--beta", repr(p["beta_ms"]), "--gamma", repr(p["gamma_ms"]),
            "--knee-tokens", repr(p["knee_tokens"]), "--max-batch", str(p["max_num_seqs"]),
            "--max-batched-tokens", str(p["max_batched_tokens"]), "--kv-tokens", str(p["kv_tokens"])]


def without_notes(found):
    return {name: value for name, value in found.items() if name != "assumptions"}


@pytest.mark.parametrize("name", ["h100-8b", "a100-70b-tp4", "steady-25ms"])
@pytest.mark.parametrize("command, more", [("latency", ["--rate", "0.5"]), ("size", ["--ttft", "2000@p90", "--itl", "100"])])
def test_a_preset_stands_for_its_numbers(command, more, name):
    asked = [*LLAMA[6:], "--output-cv", "1", *more]
    found = document(command, "--preset", name, *asked)
    assert without_notes(found) == without_notes(document(command, *preset_flags(name), *asked))
    assert any(name in note and "tailrace presets" in note for note in found["assumptions"])


def test_flags_beside_a_preset_win():
    asked = [*LLAMA[6:], "--rate", "2"]
    found = document("latency", "--preset", "h100-8b", "--alpha", "9", "--max-batch", "64", *asked)
    flags = with_flag(with_flag(preset_flags("h100-8b"), "alpha", "9"), "max-batch", "64")
    assert without_notes(found) == without_notes(document("latency", *flags, *asked))


def test_a_profile_is_a_preset_too(tmp_path):
    profile = tmp_path / "ours.yaml"
    profile.write_text("preset: a100-8b\nalpha_ms: 12\nmax_num_seqs: 32\ncpu_ms: 1\n")
    asked = [*LLAMA[6:], "--rate", "1"]
    found = document("latency", "--preset", profile, *asked)
    flags = with_flag(with_flag(preset_flags("a100-8b"), "alpha", "12"), "max-batch", "32")
    assert without_notes(found) == without_notes(document("latency", *flags, *asked))
    assert any("time on the CPU is left out" in note for note in found["assumptions"])


def test_a_preset_that_cannot_hold_the_request_says_so():
    found = document("latency", "--preset", "h100-8b", "--input", "140000", "--output", "10", "--rate", "0.01")
    assert any("131072 tokens at most" in note for note in found["assumptions"])


@pytest.mark.parametrize("command", ["latency", "size"])
def test_help_says_where_presets_are_listed(command):
    assert "tailrace presets lists them" in " ".join(tailrace(command, "--help").stdout.split())


WRONG_SERVICE = [
    ("alpha", "-1"), ("alpha", "fast"), ("alpha", "nan"), ("alpha", "inf"), ("beta", "-0.1"), ("beta", ""),
    ("gamma", "1e300"), ("gamma", "nan"), ("input", "-1"), ("input", "2e9"), ("output", "0"), ("output", "many"),
    ("model", "magic"), ("max-batch", "0"), ("max-batch", "1.5"), ("max-queue", "-1"), ("max-batched-tokens", "-1"),
    ("max-batched-tokens", "all"), ("kv-tokens", "-5"), ("knee-tokens", "-1"), ("knee-tokens", "x"), ("per-request", "-1"),
    ("prefix-hit", "1.5"), ("prefix-hit", "-0.1"), ("input-cv", "-1"), ("output-cv", "nan"), ("output-cv", "1e6"),
    ("iterations", "two"),
]


def with_flag(base, flag, value):
    args = list(base)
    if f"--{flag}" in args:
        args[args.index(f"--{flag}") + 1] = value
        return args
    return [*args, f"--{flag}", value]


@pytest.mark.parametrize("command, more", [("latency", ["--rate", "1"]), ("size", ["--itl", "20"])])
@pytest.mark.parametrize("flag, value", WRONG_SERVICE)
def test_a_wrong_flag_is_one_clear_error(command, more, flag, value):
    done = tailrace(command, *with_flag(LLAMA + more, flag, value), "--json")
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert f"--{flag}" in done.stderr
    assert (value or '""') in done.stderr.replace("1e+300", "1e300").replace("2000000000", "2e9").replace("1000000", "1e6"), done.stderr


@pytest.mark.parametrize("flag, value", [
    ("ttft", "-1"), ("ttft", "soon"), ("itl", "nan"), ("e2e", "-3"), ("percentile", "75"), ("percentile", "p98"),
    ("ttft", "500@p75"), ("ttft", "500@"), ("ttft", "@p90"), ("itl", "soon@p90"), ("e2e", "nan@mean"),
    ("arrival", "-1"), ("arrival", "lots"), ("arrival", "1e300"), ("slo-multiplier", "1"), ("slo-multiplier", "nan"),
])
def test_a_wrong_target_is_one_clear_error(flag, value):
    base = LLAMA if flag == "slo-multiplier" else with_flag(LLAMA, "itl", "20")
    done = tailrace("size", *with_flag(base, flag, value))
    assert done.returncode == 2 and done.stdout == ""
    assert f"--{flag}" in done.stderr and value in done.stderr.replace("1e+300", "1e300"), done.stderr


@pytest.mark.parametrize("args, words", [
    (["latency", *LLAMA], ["--rate"]),
    (["latency", *LLAMA, "--rate", "-1"], ["--rate", "-1"]),
    (["latency", *LLAMA[2:], "--rate", "1"], ["--alpha"]),
    (["size", *LLAMA], ["--ttft", "--itl", "--slo-multiplier"]),
    (["size", *LLAMA, "--slo-multiplier", "3", "--itl", "20"], ["--slo-multiplier", "--itl", "either"]),
    (["size", *LLAMA, "--model", "chain", "--itl", "20", "--percentile", "99"], ["--percentile", "corrected"]),
    (["size", *LLAMA, "--model", "chain", "--itl", "20", "--iterations", "output"], ["--iterations", "corrected"]),
    (["size", *LLAMA, "--model", "chain", "--itl", "20@p99"], ["--itl", "corrected", "mean"]),
    (["size", *LLAMA, "--itl", "20", "--rate", "5"], ["--rate"]),
    (["size", "--preset", "h200", *LLAMA[6:], "--itl", "20"], ["--preset", '"h200"', "h100-8b"]),
    (["size", "--preset", "nowhere.yaml", *LLAMA[6:], "--itl", "20"], ["--preset", "nowhere.yaml"]),
    (["latency", *LLAMA[6:], "--rate", "1"], ["--alpha: missing", "--preset NAME", "tailrace presets"]),
    (["latency", *LLAMA, "--rte", "5"], ["--rte", "--rate"]),
    (["latency", "--alpha=", *LLAMA[2:], "--rate", "1"], ["--alpha: no value; give one"]),
    (["latency", *LLAMA, "--rate"], ["--rate: no value; give one"]),
    (["latency", *LLAMA, "--rate", "1", "--rate", "2"], ["--rate: 2 values", '"1" and "2"', "give one"]),
    (["latency", *LLAMA, "--rate", "1", "--output", "1", "--output-cv", "0.5"], ["--output: 2 values"]),
    (["latency", *LLAMA[:6], "--input", "9", "--output", "1", "--rate", "1", "--output-cv", "0.5"],
     ["--output-cv: 0.5 is more than", "give at most 0"]),
    (["latency", "--alpha", "0", "--beta", "0", "--gamma", "0", *LLAMA[6:], "--rate", "1"], ["--alpha", "at least one above 0"]),
])
def test_wrong_usage_names_the_flag_and_the_remedy(args, words):
    done = tailrace(*args)
    assert done.returncode == 2 and done.stdout == ""
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.mark.parametrize("command", ["latency", "size"])
def test_help_has_an_example_that_runs(command):
    text = tailrace(command, "--help").stdout
    example = " ".join(text[text.index("tailrace " + command + " --alpha"):].split("\n\n")[0].split())
    done = tailrace(*example.split("Usage:")[0].split()[1:], "--json")
    assert done.returncode == 0, (example, done.stderr)
    assert json.loads(done.stdout)["model"] == "corrected"
