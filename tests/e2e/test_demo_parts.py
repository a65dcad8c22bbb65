"""The demo's pure parts: the mix, the statistics, the tables. The flow itself is in test_demo.py."""
import io
import math
import random
import sys

import pytest

from harness import ROOT

sys.path.insert(0, str(ROOT / "demo"))
import client  # noqa: E402
import console  # noqa: E402
import measures  # noqa: E402
import processes  # noqa: E402
import prompts  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402
from measures import Sample  # noqa: E402

# The mix.


def test_the_mix_has_its_shares_and_every_kind():
    assert prompts.counts(100) == {"factual": 40, "summary": 25, "code": 20, "creative": 15}
    for total in range(4, 200):
        counted = prompts.counts(total)
        assert sum(counted.values()) == total or total < 8, (total, counted)
        assert min(counted.values()) >= 1
        assert all(abs(counted[kind] - total * share) <= 1 for kind, share in prompts.MIX.items())


def test_warm_up_and_measured_prompts_are_all_different():
    parts = {part: [r.prompt for r in prompts.requests(part, prompts.available(part), 1)] for part in ("warm-up", "measured")}
    everything = parts["warm-up"] + parts["measured"]
    assert len(set(everything)) == len(everything) > 400
    for kind, (_, subjects) in prompts.KINDS.items():
        assert len(set(subjects)) == len(subjects), kind


def test_requests_are_the_same_for_the_same_seed_only():
    assert prompts.requests("measured", 50, 1) == prompts.requests("measured", 50, 1)
    assert prompts.requests("measured", 50, 1) != prompts.requests("measured", 50, 2)


def test_more_requests_than_prompts_are_refused():
    with pytest.raises(ValueError, match="prompts for"):
        prompts.requests("measured", prompts.available("measured") + 1, 1)


def test_the_limit_gives_no_kind_away():
    bodies = [r.body("m", 1, emulated=False) for r in prompts.requests("measured", 40, 1)]
    assert {body["max_tokens"] for body in bodies} == {prompts.ANSWER_TOKENS_MAX}
    assert not any("emulator_output_tokens" in body for body in bodies)
    assert all("emulator_output_tokens" in r.body("m", 1, emulated=True) for r in prompts.requests("measured", 40, 1))


# Statistics.


def test_percentiles_interpolate():
    assert [measures.percentile([4, 1, 3, 2], p) for p in (0, 50, 100)] == [1, 2.5, 4]
    assert measures.percentile([7], 99) == 7


def test_rank_correlation():
    assert measures.rank_correlation([1, 2, 3, 4], [10, 20, 30, 400]) == pytest.approx(1)
    assert measures.rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert measures.rank_correlation([1, 2, 2, 3], [1, 2, 2, 3]) == pytest.approx(1), "ties share a rank"
    assert measures.rank_correlation([1, 1, 1], [1, 2, 3]) is None
    assert measures.ranks([5, 1, 5, 9]) == [2.5, 1, 2.5, 4]


def sample(name, kind="code", tokens=10, end=2.0, **more):
    return Sample(name, kind, tokens, more.pop("ttft_s", 1.0), end, **more)


def rounds_of(values, count=2):
    return [[sample(name, end=value) for name, value in values.items()] for _ in range(count)]


def test_the_bootstrap_finds_a_clear_difference_and_none_where_there_is_none():
    rng = random.Random(5)
    before = {f"r{i}": rng.lognormvariate(0, 1) for i in range(80)}
    halved = {name: value / 2 * rng.uniform(0.9, 1.1) for name, value in before.items()}
    clear = measures.paired_ratio(rounds_of(before), rounds_of(halved), "end_to_end_s", seed=1)
    assert clear["low"] < clear["ratio"] < clear["high"] and clear["ratio"] == pytest.approx(2, rel=0.05)
    assert clear["difference_shown"] and clear["low"] > 1.8
    shuffled = dict(zip(before, rng.sample(list(before.values()), len(before))))
    none = measures.paired_ratio(rounds_of(before), rounds_of(shuffled), "end_to_end_s", seed=1)
    assert none["ratio"] == pytest.approx(1) and not none["difference_shown"]
    assert measures.paired_ratio(rounds_of(before), rounds_of(halved), "end_to_end_s", seed=1) == clear, "seeded"
    assert measures.paired_ratio(rounds_of({"a": 1}), rounds_of({"a": 1}), "end_to_end_s", seed=1) is None


def test_rounds_that_disagree_widen_the_interval():
    values = {f"r{i}": 1.0 + i % 7 for i in range(60)}
    slow = {name: 3 * value for name, value in values.items()}
    steady = measures.paired_ratio(rounds_of(slow), rounds_of(values), "end_to_end_s", seed=1)
    uneven = measures.paired_ratio([*rounds_of(slow, 1), *rounds_of(values, 1)], rounds_of(values), "end_to_end_s", seed=1)
    assert steady["low"] == pytest.approx(3) and steady["difference_shown"]
    assert uneven["low"] < 1.1 and uneven["high"] > 2.9


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng, covered = random.Random(11), 0
    for trial in range(100):
        after = {i: rng.lognormvariate(0, 0.5) for i in range(60)}
        before = {i: 1.5 * value * rng.lognormvariate(-0.02, 0.2) for i, value in after.items()}  # expectation 1.5
        interval = measures.paired_ratio(rounds_of(before, 1), rounds_of(after, 1), "end_to_end_s", seed=trial, draws=400)
        covered += interval["low"] <= 1.5 <= interval["high"]
    assert 85 <= covered <= 100


def test_comparisons_leave_out_what_failed_in_any_round():
    both = [sample("a", end=2), sample("b", end=4)]
    before = [[*both, sample("c", end=50)], [*both, sample("c", error="timeout")]]
    assert measures.paired_ratio(before, rounds_of({"a": 1, "b": 2, "c": 1}), "end_to_end_s", seed=1)["ratio"] == 2
    assert measures.by_kind(before[1:], "end_to_end_s") == {"code": pytest.approx(3)}


def test_the_engines_own_speed_is_compared():
    slow, fast = [[sample("a", between_tokens_s=gap), sample("b")] for gap in (0.04, 0.02)]
    assert measures.speed_ratio([slow, slow], [fast, fast]) == pytest.approx(2)
    assert measures.speed_ratio([slow], [[sample("b")]]) is None


def test_equal_lengths_compare_every_round():
    rounds = [[sample("a", tokens=5), sample("b", tokens=6)], [sample("a", tokens=5), sample("b", tokens=7)]]
    assert measures.equal_lengths_share(rounds) == 0.5


def test_the_histogram_counts_every_length_once_and_cut_ones_apart():
    bins = measures.histogram(list(range(1, 401)), 400)
    assert sum(count for _, _, count in bins) == 400
    assert bins[0] == (1, 7, 7) and bins[-2:] == [(256, 399, 144), (400, 400, 1)]


def test_capacity_weighs_kinds_by_the_mix():
    mix = {"short": 0.5, "long": 0.5}
    assert measures.capacity({"short": 1, "long": 3}, mix, slots=4) == pytest.approx(2)
    assert measures.capacity({"long": 4}, mix, slots=4) == pytest.approx(1)
    assert measures.requests_that_fit(100, 4, capacity_per_s=2, tail_s=5, most=1000) == 40
    assert measures.requests_that_fit(100, 4, capacity_per_s=2, tail_s=5, most=30) == 30
    assert measures.requests_that_fit(10, 4, capacity_per_s=0.1, tail_s=5, most=30) == 8


# Tables and settings.


def result(scale):
    rng = random.Random(3)
    names = [(f"r{i}", "factual" if i % 2 else "creative") for i in range(40)]
    lengths = {name: 10 if kind == "factual" else 400 for name, kind in names}

    def one(policy):
        end = {"factual": 5 * (scale if policy == "fcfs" else 1), "creative": 20}
        return [sample(name, kind, lengths[name], end[kind] * rng.uniform(0.9, 1.1)) for name, kind in names]

    rounds = [(policy, one(policy)) for policy in run.ROUNDS]
    return {"date": "2026-01-01", "machine": "2 cores", "engine": {"emulated": True, "description": "EMULATED"},
            "load": {"rate_per_s": 1.5, "factor": 1.5, "capacity_per_s": 1.0}, **report.compare(rounds, run.POLICIES, seed=1),
            "histogram": measures.histogram(list(lengths.values()), 400),
            "predictor": {"rank_correlation": 0.9, "warm_up_answers": 60, "decided_share": 1.0}}


def test_the_report_says_what_differs_and_what_does_not():
    text = report.text(result(scale=4))
    assert "times lower with tie" in text and "No difference shown" not in text
    assert "gains" in text and "EMULATED" in text
    assert "No difference shown" in report.text(result(scale=1))
    worse = report.text(result(scale=0.3))
    assert "HIGHER with tie" in worse and "pays" in worse


def test_an_uncalibrated_predictor_shows_no_difference_whatever_the_numbers_say():
    document = result(scale=4)
    document["predictor"] = {"rank_correlation": None, "warm_up_answers": 5, "decided_share": 0.0}
    assert "not calibrated" in report.text(document) and "No difference shown" in report.text(document)


def test_a_disturbed_machine_shows_no_difference_either():
    document = result(scale=4)
    document["speed_ratio"] = 1.1
    assert "No difference shown" not in report.text(document)
    document["speed_ratio"] = 0.7
    assert "No difference shown" in report.text(document) and "quiet machine" in report.text(document)


def test_tables_line_up():
    lines = report.table(["", "a"], [["x", "1"], ["long name", "22"]]).splitlines()
    assert len({len(line) for line in lines}) == 1 and all(line[0] == line[-1] == "|" for line in lines)


@pytest.mark.parametrize("seconds, text", [(0.0123, "12.3 ms"), (0.5, "500 ms"), (0.9996, "1.00 s"), (1.234, "1.23 s"), (12.34, "12.3 s")])
def test_figures(seconds, text):
    assert report.figure(seconds) == text


def test_report_files(tmp_path):
    document = result(scale=2)
    report.write(tmp_path / "out", document, [("fcfs", [sample("a")]), ("tie", [sample("a", predicted_median=12.0)])])
    rows = (tmp_path / "out" / "requests.csv").read_text().splitlines()
    assert rows[0].split(",") == report.CSV_FIELDS and len(rows) == 3
    assert (tmp_path / "out" / "report.md").read_text() == report.text(document)


@pytest.mark.parametrize("environment, word", [
    ({"DEMO_SECONDS": "soon"}, "DEMO_SECONDS"), ({"DEMO_SECONDS": "nan"}, "DEMO_SECONDS"), ({"DEMO_SECONDS": "1"}, "at least 10"),
    ({"DEMO_SEED": "-1"}, "DEMO_SEED"), ({"DEMO_ENGINE": "gpu"}, "DEMO_ENGINE")])
def test_bad_settings_name_the_variable_and_a_remedy(environment, word):
    with pytest.raises(processes.DemoError, match=word) as caught:
        run.settings_from(environment, interactive=True)
    assert "make demo" in caught.value.remedy


def test_the_demo_stays_only_for_a_person_who_set_no_limit():
    assert run.settings_from({}, interactive=True).stay
    assert not run.settings_from({}, interactive=False).stay
    assert not run.settings_from({"CI": "true"}, interactive=True).stay
    assert not run.settings_from({"DEMO_SECONDS": "60"}, interactive=True).stay


class Screen(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


def test_progress_is_one_changing_line_on_a_terminal_and_rare_lines_elsewhere():
    now = [0.0]
    for terminal in (True, False):
        stream = Screen(terminal)
        screen = console.Console(stream, clock=lambda: now[0])
        for _ in range(100):
            now[0] += 1
            screen.progress("working")
        screen.step("done")
        assert stream.getvalue().count("\n") == (1 if terminal else 1 + 100 // console.PLAIN_LINE_EVERY_S)


def test_a_server_that_is_not_there_is_an_answer_not_an_exception():
    assert client.fetch("http://127.0.0.1:9/", timeout_s=1)[0] == 0
    answer = client.ask(9, "a", {}, timeout_s=1)
    assert answer.error and math.isclose(answer.ttft_s, 0)


# Children.


def test_a_child_that_fails_shows_its_last_lines_and_a_remedy(tmp_path):
    children = processes.Children(tmp_path)
    with pytest.raises(processes.DemoError) as caught:
        children.start_server("engine", [sys.executable, "-c", "import sys; print('no memory'); sys.exit(3)"], remedy="buy some")
    assert "no memory" in str(caught.value) and "status 3" in str(caught.value) and caught.value.remedy == "buy some"
    with pytest.raises(processes.DemoError, match="could not be started"):
        children.start("engine", [tmp_path / "absent"])
    children.stop()


def test_stopping_ends_even_a_child_that_ignores_it(tmp_path):
    children = processes.Children(tmp_path)
    program = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)"
    stubborn = children.start("stubborn", [sys.executable, "-c", program])
    while "up" not in stubborn.last_lines():
        stubborn.check("")
    stubborn.stop(patience_s=0.2)
    assert not stubborn.running()
    children.stop()
    children.stop()
