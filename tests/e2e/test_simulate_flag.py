"""`tailrace latency --simulate` and `tailrace size --simulate`: who answers where the formula is out of range."""
import json
import subprocess

from harness import BIN

REPLICA = ["--alpha", "6", "--beta", "0.02", "--gamma", "7.6e-5", "--input", "512", "--output", "128", "--json"]


def ask(command, *args):
    done = subprocess.run([BIN, command, *REPLICA, *args], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_formula_answers_where_it_is_in_range():
    plain = ask("latency", "--rate", "10")
    assert plain["source"] == "formula" and plain["out_of_range"] is None
    assert ask("latency", "--rate", "10", "--simulate") == plain


def test_the_simulator_answers_near_saturation_and_says_so():
    rate = str(0.97 * ask("latency", "--rate", "10")["max_rate"])
    formula = ask("latency", "--rate", rate)
    assert formula["source"] == "formula" and formula["out_of_range"] == "near-saturation"
    simulated = ask("latency", "--rate", rate, "--simulate")
    assert simulated["source"] == "simulation" and simulated["out_of_range"] == "near-saturation"
    assert simulated["stable"]
    # Near saturation neither is exact, but they speak of the same engine.
    assert 0.3 < simulated["ttft_ms"] / formula["ttft_ms"] < 3
    assert abs(simulated["itl_ms"] / formula["itl_ms"] - 1) < 0.1
    assert ask("latency", "--rate", rate, "--simulate") == simulated


def test_a_size_near_saturation_is_found_on_the_simulator():
    targets = ["--ttft", "2000", "--itl", "60"]
    formula = ask("size", *targets)
    assert formula["achieved"]["source"] == "formula"
    simulated = ask("size", *targets, "--simulate")
    assert simulated["achieved"]["source"] == "simulation"
    assert simulated["achieved"]["ttft_ms"] <= 2000
    assert abs(simulated["rate_per_replica"] / formula["rate_per_replica"] - 1) < 0.1


def test_the_published_models_make_no_use_of_it():
    document = ask("latency", "--rate", "10", "--model", "chain", "--simulate")
    assert any("--simulate" in note for note in document["assumptions"])
