"""`tailrace evaluate` through the command line: its document, its report, its errors."""
import html.parser
import json
import re
import subprocess
from types import SimpleNamespace

import pytest

from harness import BIN, ROOT

REQUESTS = ROOT / "tests/data/requests.jsonl"
BASELINES = ["prior", "route", "prompt-length", "global"]


def evaluate(*args, stdin=None):
    return subprocess.run([BIN, "evaluate", *map(str, args)], capture_output=True, text=True, timeout=300, input=stdin)


@pytest.fixture(scope="module")
def document():
    done = evaluate(REQUESTS, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def by_name(document):
    [one] = document["sets"]
    return {e["predictor"]: e["scores"] for e in one["evaluations"]}


def test_one_document_with_every_predictor_on_every_row(document):
    [one] = document["sets"]
    assert one["set"] == "requests" and one["rows"] == 800 and one["models"] == 2
    scores = by_name(document)
    assert set(scores) == {"online", *BASELINES, "max-tokens", "prompt-oracle", "oracle"}
    for name, s in scores.items():
        assert s["rows"] == 800 and -1 <= s["tau"] <= 1
        if name == "max-tokens":
            assert "log_score" not in s
            continue
        assert s["log_score"] < 1e-9
        assert set(s["coverage"]) == {"50", "80", "90", "99"} and set(s["pinball"]) == {"50", "90", "99"}
        assert sum(s["pit"]) == pytest.approx(1) and len(s["pit"]) == 20
        assert s["reliability"] == sorted(s["reliability"])
    for e in one["evaluations"]:
        assert [p["to"] for p in e["curve"]] == [50, 100, 200, 500, 800]
        assert e["cost"] is None


def test_who_is_told_the_length_is_perfect_and_text_beats_groups(document):
    scores = by_name(document)
    assert scores["oracle"]["tau"] == 1 and scores["oracle"]["log_score"] == pytest.approx(0, abs=1e-6)
    for baseline in BASELINES:
        assert scores["online"]["tau"] > scores[baseline]["tau"] + 0.1
        assert scores["online"]["log_score"] > scores[baseline]["log_score"]


def test_the_same_seed_gives_the_same_bytes_and_another_another_order():
    args = [REQUESTS, "--predictor", "online,route", "--json", "--seed"]
    assert evaluate(*args, 5).stdout == evaluate(*args, 5).stdout
    assert evaluate(*args, 5).stdout != evaluate(*args, 6).stdout


def test_tables_for_people_are_ascii():
    done = evaluate(REQUESTS, "--predictor", "route", "--curve", "--cost")
    assert done.returncode == 0 and done.stdout.isascii()
    assert "requests: 800 rows" in done.stdout
    assert "predict us" in done.stdout and "501-800" in done.stdout


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.outside = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.outside += [v for k, v in attrs if k in ("src", "href", "xlink:href", "data") and not v.startswith("#")]


def test_the_page_is_one_file_that_needs_no_network(tmp_path):
    lines = tmp_path / "<b>x&y.jsonl"
    lines.write_text(REQUESTS.read_text())
    page = tmp_path / "report.html"
    done = evaluate(lines, "--predictor", "online,global", "--html", page)
    assert done.returncode == 0 and done.stderr == f"wrote {page}\n"
    text = page.read_text()
    parsed = Page()
    parsed.feed(text)
    assert parsed.outside == []
    assert "script" not in parsed.tags and "link" not in parsed.tags and "b" not in parsed.tags
    assert parsed.tags.count("svg") >= 7 and "table" in parsed.tags
    assert "@import" not in text and not re.search(r"url\((?!#)", text)
    assert "&lt;b&gt;x&amp;y" in text


def test_charts_show_orders_worse_than_none_and_name_the_intervals(tmp_path):
    page = tmp_path / "report.html"
    assert evaluate(REQUESTS, "--predictor", "route", "--html", page).returncode == 0
    texts = {}
    for chart in re.findall(r"<svg.*?</svg>", page.read_text(), re.S):
        title, *rest = re.findall(r"<text[^>]*>(.*?)</text>", chart)
        texts[title] = rest
    curve = json.loads(evaluate(REQUESTS, "--predictor", "route", "--json").stdout)["sets"][0]["evaluations"][0]["curve"]
    assert min(point["tau"] for point in curve) < -0.1
    assert "-0.1" in texts["tau"]
    assert {"50 %", "80 %", "90 %", "99 %"} <= set(texts["Coverage of the intervals of route"])


def test_an_attack_is_told_with_and_without(document):
    done = evaluate(REQUESTS, "--predictor", "online", "--poison", "constant,empty-prompts", "--json")
    assert done.returncode == 0, done.stderr
    attacks = json.loads(done.stdout)["sets"][0]["poisons"]
    assert [a["poison"] for a in attacks] == ["constant", "empty-prompts"]
    for a in attacks:
        assert a["without"]["rows"] == a["with"]["rows"] == 800
        assert 0.2 < a["share"] < 0.4
        assert a["without"]["coverage"] != a["with"]["coverage"]


def test_a_model_is_left_out(tmp_path):
    lines = tmp_path / "many.jsonl"
    rows = REQUESTS.read_text().splitlines()
    lines.write_text("\n".join(rows * 4) + "\n")
    done = evaluate(lines, "--predictor", "online", "--leave-one-model-out", "--json")
    assert done.returncode == 0, done.stderr
    [left] = json.loads(done.stdout)["sets"][0]["left_out"]
    assert {m["model"] for m in left["models"]} == {"small-model", "large-model"}
    assert left["after"] == 200 and left["window"] == 500
    assert 0.5 < left["share_of_final"]["estimate"] < 1.2


def test_several_inputs_are_sets_of_their_own_or_one_stream():
    two = json.loads(evaluate(REQUESTS, REQUESTS, "--predictor", "global", "--json").stdout)
    assert [s["rows"] for s in two["sets"]] == [800, 800]
    one = json.loads(evaluate(REQUESTS, REQUESTS, "--together", "--predictor", "global", "--json").stdout)
    assert [s["rows"] for s in one["sets"]] == [1600]


@pytest.mark.parametrize("line, words", [
    ('{"prompt": "a", "length": -4}', ["line 2", "length", "-4", "whole number"]),
    ('{"prompt": "a", "length": 1e99}', ["line 2", "length"]),
    ('{"prompt": "a"}', ["line 2", "length", "missing"]),
    ('{"prompt": ["a"], "length": 4}', ["line 2", "prompt", "text"]),
    ('{"prompt": "a", "length": 4, "cap": 0}', ["line 2", "cap"]),
    ('{"prompt": "a", "length": 2000, "cap": 1000}', ["line 2", "length is 2000", "cap of 1000"]),
    ('{"id": "a", "lengths": [4, 5]}', ["line 2", "lengths", "tailrace fit"]),
    ('{"prompt": "a", "length": 4, "temperature": "hot"}', ["line 2", "temperature", "hot"]),
    ('{"prompt": "a", "length": ', ["line 2"]),
    ('[1, 2]', ["line 2"]),
])
def test_a_bad_line_is_one_clear_error(tmp_path, line, words):
    lines = tmp_path / "bad.jsonl"
    lines.write_text('{"prompt": "a", "length": 4}\n' + line + "\n")
    done = evaluate(lines, "--json")
    assert done.returncode == 2 and done.stdout == ""
    for word in ["bad.jsonl", *words]:
        assert word in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("args, words", [
    (["/nowhere/at/all"], ["/nowhere/at/all", "no such file"]),
    ([REQUESTS, "--predictor", "crystal-ball"], ["crystal-ball", "online"]),
    ([REQUESTS, "--poison", "arsenic"], ["arsenic", "one-token"]),
    ([REQUESTS, "--poison", "all", "--poison-share", "1"], ["poison-share", "0.9"]),
    ([REQUESTS, "--poison", "all", "--predictor", "oracle"], ["predictor", "learns"]),
    ([REQUESTS, "--skip", "800"], ["skip", "800"]),
    ([REQUESTS, "--leave-one-model-out"], ["two such models"]),
    ([REQUESTS, "--cap", "0"], ["cap"]),
    ([], ["input"]),
])
def test_bad_usage_is_told(args, words):
    done = evaluate(*args)
    assert done.returncode == 2 and done.stdout == ""
    for word in words:
        assert word in done.stderr, done.stderr


def test_members_that_nothing_reads_are_named_once_a_file(tmp_path):
    row = '{"prompt": "a", "length": 4}\n'
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text(row + '{"prompt": "a", "length": 4, "temprature": 1}\n' * 3)
    two.write_text(row + row + '{"prompt": "a", "length": 4, "topp": 1}\n')
    done = evaluate(one, two, REQUESTS, "--predictor", "global", "--json")
    assert done.returncode == 0 and [s["rows"] for s in json.loads(done.stdout)["sets"]] == [4, 3, 800]
    [first, second] = done.stderr.splitlines()
    assert f'{one}: line 2: "temprature" is not read' in first and "temperature" in first
    assert f'{two}: line 3: "topp" is not read' in second


def test_rows_come_from_standard_input():
    done = evaluate("-", "--predictor", "global", "--json", stdin=REQUESTS.read_text())
    assert done.returncode == 0, done.stderr
    [one] = json.loads(done.stdout)["sets"]
    assert one["set"] == "standard input" and one["rows"] == 800
    wrong = evaluate("-", stdin='{"length": -1}\n')
    assert wrong.returncode == 2 and "standard input: line 1: length is" in wrong.stderr
    assert "standard input: holds no rows" in evaluate("-", stdin="").stderr


def test_one_of_a_kind_is_no_plural(tmp_path):
    lines = tmp_path / "one.jsonl"
    lines.write_text('{"prompt": "a", "model": "m", "length": 4}\n')
    done = evaluate(lines, "--predictor", "global")
    assert done.stdout.startswith("one: 1 row, 1 model, 1 pair of prompt and model, 0 answers cut\n")


def test_a_negative_r2_and_vouched_are_explained_where_they_stand(tmp_path):
    lines = tmp_path / "noise.jsonl"
    # What the law says of "c" comes from "a" and "b", which are quite different and alike.
    rows = [(prompt, length) for prompt, lengths in
            {"aa": [100, 101] * 40, "bb": [100, 101, 102] * 30, "cc": [90, 3000] * 5}.items() for length in lengths]
    lines.write_text("".join(json.dumps({"prompt": p, "length": n}) + "\n" for p, n in rows))
    args = [lines, "--predictor", "global", "--in-order"]
    r2 = json.loads(evaluate(*args, "--json").stdout)["sets"][0]["evaluations"][0]["repeats"]
    assert min(r2["r2_mu"], r2["r2_spread"]) < 0
    shown = evaluate(*args, "--curve").stdout
    assert "R2 below 0: worse than" in shown and "vouched: share of predictions" in shown
    plain = evaluate(REQUESTS, "--predictor", "max-tokens").stdout
    assert "R2 below 0" not in plain and "vouched" not in plain


def test_a_report_that_cannot_be_written_is_told_before_the_work(tmp_path):
    for page, why in [("/nowhere/report.html", "no folder"), (str(tmp_path), "folder")]:
        # Input that does not exist would be the first error otherwise.
        done = evaluate("/nowhere/at/all", "--html", page)
        assert done.returncode == 2 and done.stdout == ""
        assert "--html" in done.stderr and page in done.stderr and why in done.stderr


def test_the_example_in_the_help_works_as_it_stands(tmp_path):
    (tmp_path / "build").mkdir()
    (tmp_path / "build/tailrace").symlink_to(BIN)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    shown = evaluate("--help").stdout
    example = re.search(r"Example: (build/tailrace evaluate .*)", shown).group(1)
    done = subprocess.run(["bash", "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "online" in done.stdout and "<svg" in (tmp_path / "report.html").read_text()


def test_rows_recorded_as_the_page_says_are_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [recording] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/evaluate.md").read_text(), re.S)
    for limit in [{}, {"max_tokens": 7}]:
        request = {"model": "m", "messages": [{"role": "user", "content": "Why?"}], **limit}
        answer = SimpleNamespace(usage=SimpleNamespace(completion_tokens=7))
        completions = SimpleNamespace(create=lambda **_: answer)
        client = SimpleNamespace(chat=SimpleNamespace(completions=completions))
        exec(recording, {"json": json, "client": client, "request": request})
    done = evaluate("requests.jsonl", "--predictor", "global")
    assert done.returncode == 0 and done.stderr == ""
    assert "requests: 2 rows, 1 model, 1 pair of prompt and model, 1 answer cut" in done.stdout


@pytest.mark.parametrize("flag", ["--seed", "--answers", "--skip", "--other-rows"])
def test_a_negative_number_is_refused_instead_of_wrapping_around(flag):
    done = evaluate(REQUESTS, "--predictor", "prior", flag, "-1")
    assert done.returncode == 2 and done.stdout == ""
    assert flag in done.stderr and '"-1" is negative; give a whole number from 0' in done.stderr and done.stderr.count("\n") == 1


def test_a_file_name_cannot_steer_the_terminal(tmp_path):
    name = tmp_path / "evil\x1b[31m\u202ex.jsonl"
    name.write_text('{"prompt": 1}\n')
    for path in (name, tmp_path / "absent\x1b[31m\u202ex.jsonl"):
        done = evaluate(path)
        assert done.returncode == 2 and "\x1b" not in done.stderr and "\u202e" not in done.stderr
        assert "\\x1b[31m\\u202ex.jsonl" in done.stderr
