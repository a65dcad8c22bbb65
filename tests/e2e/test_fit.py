"""`tailrace fit` through the command line: its document, its errors, and what it can read."""
import bz2
import gzip
import json
import lzma
import os
import pathlib
import random
import re
import subprocess
import xml.etree.ElementTree

import pytest

from harness import BIN

STANDARD = ["log-t", "log-normal", "gamma", "weibull", "exponential", "lomax"]
PARAMETERS = {"log-t": ["mu", "sigma", "nu"], "log-normal": ["mu", "sigma"], "gamma": ["shape", "scale"],
              "weibull": ["shape", "scale"], "exponential": ["scale"], "lomax": ["shape", "scale"]}


def fit(*args, stdin=None):
    return subprocess.run([BIN, "fit", *map(str, args)], capture_output=True, input=stdin, timeout=120)


def document(*args, stdin=None):
    done = fit(*args, "--json", stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return json.loads(done.stdout)


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def refused(done):
    """One line on standard error, nothing on standard output, exit code 2."""
    assert done.returncode == 2, done
    assert done.stdout == b""
    message = done.stderr.decode()
    assert message.startswith("tailrace fit: ") and message.count("\n") == 1 and len(message) < 500, message
    return message


@pytest.fixture
def recording(tmp_path):
    rng = random.Random(5)
    path = tmp_path / "runs.jsonl"
    path.write_text(lines(*({"id": f"p{i}", "lengths": [max(1, round(rng.lognormvariate(4, 0.5))) for _ in range(30)]}
                            for i in range(40))))
    return path


def test_every_prompt_has_every_field(recording):
    result = document(recording)
    assert [prompt["id"] for prompt in result["prompts"]] == [f"p{i}" for i in range(40)]
    for prompt in result["prompts"]:
        assert prompt["n"] == 30 and prompt["n_capped"] == 0 and prompt["degenerate"] is False
        assert list(prompt["fits"]) == STANDARD
        for family, fitted in prompt["fits"].items():
            for key in PARAMETERS[family] + ["loglik", "aic", "bic", "ks_d", "ks_p", "ad"]:
                assert isinstance(fitted[key], (int, float)), (family, key)
            assert fitted["degenerate"] is None
            # Lomax ends at its exponential limit where the tail is light.
            assert fitted["at_bound"] is False or family == "lomax"
            assert fitted["aic"] == pytest.approx(2 * (len(PARAMETERS[family]) - (family == "log-t")) - 2 * fitted["loglik"])
        assert prompt["fits"]["log-t"]["nu"] == 3.5
        # Tables know the location-scale families; the others need a bootstrap.
        assert 0 <= prompt["fits"]["log-normal"]["ks_p_fitted"] <= prompt["fits"]["log-normal"]["ks_p"]
        assert prompt["fits"]["gamma"]["ks_p_fitted"] is None
    summary = result["summary"]
    assert summary["prompts"] == summary["judged"] == 40 and summary["lengths"] == 1200
    assert summary["passes"]["log-normal"]["naive"]["rate"] > 0.95
    assert summary["passes"]["exponential"]["naive"]["rate"] < 0.3
    assert sum(best["prompts"] for best in summary["best_by_aic"].values()) == 40
    assert [c["n_from"] for c in summary["passes_by_n"]] == [20]


def test_reference_samples_give_the_reference_fits(shared, tmp_path):
    sets = json.loads((shared / "vectors/scheduling.json").read_text())["mle"]
    assert {"A", "B", "C", "E"} <= {s["name"] for s in sets}
    path = tmp_path / "sets.jsonl"
    path.write_text(lines(*({"id": s["name"], "lengths": s["samples"]} for s in sets)))
    fixed, free = document(path), document(path, "--nu", "free", "--family", "log-t")
    for s, ours, ours_free in zip(sets, fixed["prompts"], free["prompts"], strict=True):
        assert ours["n_capped"] == 0
        for family, theirs in (("log-t", s["fixed_nu"]), ("log-normal", s["lognormal"])):
            fitted = ours["fits"][family]
            assert fitted["mu"] == pytest.approx(theirs["mu"], rel=1e-8)
            assert fitted["sigma"] == pytest.approx(theirs.get("sigma", theirs.get("sigma_ml")), rel=1e-8)
            assert fitted["loglik"] == pytest.approx(theirs["loglik"], rel=1e-8)
            assert fitted["ks_d"] == pytest.approx(theirs["ks_D"], rel=1e-8)
            assert fitted["ks_p"] == pytest.approx(theirs["ks_p_exact"], rel=1e-6)
        fitted = ours_free["fits"]["log-t"]
        assert fitted["nu"] == pytest.approx(s["free_nu"]["nu"], rel=1e-3)
        assert fitted["mu"] == pytest.approx(s["free_nu"]["mu"], rel=1e-3)
        assert fitted["sigma"] == pytest.approx(s["free_nu"]["sigma"], rel=1e-3)
        assert fitted["at_bound"] is s["free_nu"]["at_bound"]
    censored = [s for s in sets if "censored_fixed_nu" in s]
    assert censored
    path.write_text(lines(*({"id": s["name"], "lengths": s["samples"], "cap": s["generator"]["cap"]} for s in censored)))
    for s, ours in zip(censored, document(path)["prompts"], strict=True):
        fitted = ours["fits"]["log-t"]
        assert ours["n_capped"] == s["n_at_cap"]
        for key in ("mu", "sigma", "loglik"):
            assert fitted[key] == pytest.approx(s["censored_fixed_nu"][key], rel=1e-7), key


def test_samples_without_a_maximum_are_reported(shared, tmp_path):
    examples = json.loads((shared / "vectors/scheduling.json").read_text())["mle_degeneracy"]["example"]
    proper = [e for e in examples if isinstance(e["samples"], list)]
    path = tmp_path / "identical.jsonl"
    path.write_text(lines(*({"id": "proper", "lengths": e["samples"]} for e in proper),
                          {"id": "sixteen", "lengths": [2048] * 16 + [1384, 1281, 1216, 1057]},
                          {"id": "constant", "lengths": [7] * 20}, {"id": "one", "lengths": [7]}))
    result = document(path)
    for example, prompt in zip(proper, result["prompts"]):
        assert prompt["degenerate"] is False
        assert prompt["fits"]["log-t"]["sigma"] == pytest.approx(example["sigma"], rel=1e-8)
    for prompt in result["prompts"][len(proper):]:
        assert prompt["degenerate"] is True, prompt["id"]
        fitted = prompt["fits"]["log-t"]
        assert all(fitted[key] is None for key in ("mu", "sigma", "nu", "loglik", "aic", "ks_d", "ks_p", "ks_p_fitted"))
        assert fitted["degenerate"]
    assert result["summary"]["degenerate"] == 3


def test_bytes_do_not_depend_on_threads_and_do_on_the_seed(recording):
    outputs = [fit(recording, "--json", "--bootstrap", 20, "--holdout", "--holdout-min", 20, "--threads", t, "--seed", s).stdout
               for t, s in ((1, 1), (2, 1), (1, 2))]
    assert outputs[0] == outputs[1] != outputs[2]
    first = json.loads(outputs[0])
    assert first["prompts"][0]["fits"]["gamma"]["p_fitted_by"] == "bootstrap"
    assert set(first["summary"]["holdout"]["laws"]) >= {"log-t", "binned", "mixture", "empirical"}


def test_packed_files_and_standard_input_give_the_same_document(recording, tmp_path):
    plain = recording.read_bytes()
    expected = document(recording)
    zstd = subprocess.run(["zstd", "-qc"], input=plain, capture_output=True, check=True).stdout
    packed = {"gzip": gzip.compress(plain), "bzip2": bz2.compress(plain), "xz": lzma.compress(plain), "zstd": zstd}
    for name, data in packed.items():
        path = tmp_path / f"{name}.unknown"
        path.write_bytes(data)
        assert document(path) == expected, name
        assert document("-", stdin=data) == expected, name
        path.write_bytes(data[:-7])
        message = refused(fit(path, "--json"))
        assert str(path) in message and name in message and "cut short after line" in message
    assert document("-", stdin=plain) == expected


def test_csv_forms_give_the_same_fits(recording, tmp_path):
    records = [json.loads(line) for line in recording.read_text().splitlines()]
    expected = document(recording)
    long = "id,length\r\n" + "".join(f'"{r["id"]}",{x}\r\n' for r in records for x in r["lengths"])
    lists = "id,lengths\n" + "".join(f'{r["id"]},{" ".join(map(str, r["lengths"]))}\n' for r in records)
    wide = "id," + ",".join(f"length_{i}" for i in range(30)) + "\n" + "".join(
        f'{r["id"]},{",".join(map(str, r["lengths"]))}\n' for r in records)
    for name, text in (("long", long), ("byte order mark", "\ufeff" + long), ("lists", lists), ("wide", wide)):
        path = tmp_path / "runs.csv"
        path.write_bytes(text.encode())
        assert document(path) == expected, name


@pytest.mark.parametrize("text, words", [
    (b"", "empty"),
    (b"\n\n", "empty"),
    (b"{}\n", 'no field "lengths"'),
    (b"garbage\n", "names no column of lengths"),
    (b'{"id":"a","lengths":[1,2]}\n{"id":"b",', "line 2"),
    (b'{"id":"a","lengths":[]}', "lengths is empty"),
    (b'{"id":"a","lengths":[3,0]}', "lengths[1]"),
    (b'{"id":"a","lengths":[-1]}', "lengths[0]"),
    (b'{"id":"a","lengths":[NaN]}', "line 1"),
    (b'{"id":"a","lengths":[1e400]}', "line 1"),
    (b'{"id":"a","lengths":["5"]}', "lengths[0]"),
    (b'{"id":"a","lengths":{"x":[[[]]]}}', "it must be a list"),
    (b'{"id":"a","lengths":[5],"cap":4}', "cap is 4"),
    (b'{"id":"a","lengths":[5],"cap":-4}', "cap"),
    (b'{"id":"\xff","lengths":[5]}', "not UTF-8"),
    (b"\x00\x01\x02\xff\xfe", "line 1"),
    (b"id,length\na,5\nb,6\na,7\n", "sort the file"),
    (b"id,length\na,nan\n", "length"),
    (b"id,length\na,5,6\n", "more than 2 cells"),
    (b'id,length\n"a,5\n', "never closed"),
    (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested too deep"),
])
def test_bad_input_is_one_clear_error(tmp_path, text, words):
    path = tmp_path / "bad"
    path.write_bytes(text)
    message = refused(fit(path, "--json"))
    assert str(path) in message and words in message, message


def test_an_error_after_good_prompts_prints_no_half_document(recording):
    with recording.open("a") as file:
        file.write("nonsense\n")
    assert "line 41" in refused(fit(recording, "--json"))
    refused(fit(recording))


@pytest.mark.parametrize("args, words", [
    (["--family", "normal"], "family"), (["--family", "log-t,log-t"], "twice"), (["--nu", "0"], "nu"), (["--nu", "nan"], "nu"),
    (["--bootstrap", "-1"], "bootstrap"), (["--bootstrap", "x"], "bootstrap"), (["--seed", "1.5"], "seed"),
    (["--threads", "0"], "threads"), (["--level", "2"], "level"), (["--plot", "p1"], "out"), (["--out", "x.svg"], "plot"),
    (["--plot", "nobody", "--out", "/dev/null"], "nobody"), (["--max-capped", "0"], "max-capped"),
])
def test_bad_flags_are_named(recording, args, words):
    assert words in refused(fit(recording, *args, "--json"))


def test_a_missing_file_is_named_and_a_folder_refused():
    assert "/no/such" in refused(fit("/no/such", "--json"))
    refused(fit("/", "--json"))


def test_a_huge_line_is_read_and_an_endless_one_refused(tmp_path):
    rng = random.Random(1)
    path = tmp_path / "huge.jsonl"
    path.write_text(lines({"id": "huge", "lengths": [rng.randint(1, 4000) for _ in range(500_000)]}))
    assert document(path, "--family", "log-normal")["prompts"][0]["n"] == 500_000
    path.write_bytes(gzip.compress(b"7" * (80 << 20)))
    assert "longer than" in refused(fit(path, "--json"))


def test_memory_does_not_grow_with_the_file(tmp_path):
    rng = random.Random(2)
    block = lines(*({"id": f"p{i}", "lengths": [rng.randint(1, 400) for _ in range(50)]} for i in range(500)))

    def peak_kb(blocks):
        path = tmp_path / f"{blocks}.jsonl.gz"
        path.write_bytes(gzip.compress(block.encode()) * blocks)
        child = subprocess.Popen([BIN, "fit", path, "--family", "exponential", "--json"], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0
        return usage.ru_maxrss

    assert peak_kb(40) < peak_kb(2) + 12_000


@pytest.mark.parametrize("families", ["binned", "binned,log-t", "gamma,binned"])
def test_bins_are_fitted_beside_the_laws(recording, families):
    result = document(recording, "--family", families, "--bootstrap", 5)
    for prompt in result["prompts"]:
        assert list(prompt["fits"]) == families.split(",")
        bins = prompt["fits"]["binned"]
        assert len(bins["masses"]) == len(bins["edges"]) + 1 < 1000 and sum(bins["masses"]) == pytest.approx(1)
        assert bins["loglik"] < 0 and 0 < bins["ks_d"] < 0.5
        assert all(bins[key] is None for key in ("aic", "bic", "ks_p_fitted", "ad_p_fitted", "p_fitted_by", "degenerate"))
    summary = result["summary"]
    assert summary["best_by_aic"]["binned"]["prompts"] == 0 and summary["passes"]["binned"]["bootstrap"]["rate"] is None
    assert sum(best["prompts"] for best in summary["best_by_aic"].values()) == (0 if families == "binned" else 40)
    text = fit(recording, "--family", families).stdout.decode()
    assert "binned" in text and "nan" not in text


def test_a_file_name_cannot_steer_the_terminal(tmp_path):
    bad = tmp_path / "evil\x1b[31m\u009b\u202ex"
    bad.write_text("id,length\na,nan\n")
    for path in (bad, tmp_path / "absent\x1b[31m\u009b\u202ex"):
        assert "\\x1b[31m\\u009b\\u202ex" in refused(fit(path))


def test_ids_in_the_document_cannot_steer_the_terminal(tmp_path):
    ids = ["\u009b31m", "\x7f", "\u202e", "\x1b[31m", "é"]
    path = tmp_path / "runs.jsonl"
    path.write_text(lines(*({"id": i, "lengths": [3, 5, 8]} for i in ids)))
    done = fit(path, "--json")
    assert [prompt["id"] for prompt in json.loads(done.stdout)["prompts"]] == ids
    text = done.stdout.decode()
    assert "\\u009b31m" in text and "\\u007f" in text and "é" in text
    assert not any(c in text for c in "\u009b\x7f\u202e\x1b")
    assert not any(c in fit(path).stdout.decode() for c in "\u009b\x7f\u202e\x1b")


def test_the_plot_is_a_drawing_of_that_prompt(recording, tmp_path):
    records = [json.loads(line) for line in recording.read_text().splitlines()]
    records[3]["id"] = "<b>&"
    recording.write_text(lines(*records))
    out = tmp_path / "plot.svg"
    done = fit(recording, "--plot", "<b>&", "--out", out)
    assert done.returncode == 0 and done.stderr.decode() == f"wrote {out}\n"
    drawing = xml.etree.ElementTree.parse(out).getroot()
    texts = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert "<b>& (30 answers)" in texts and set(STANDARD) <= set(texts)
    assert out.stat().st_size < 100_000


def test_a_plot_needs_one_prompt_of_that_id_and_an_svg(recording, tmp_path):
    recording.write_text(recording.read_text() * 2)
    out = tmp_path / "plot.svg"
    assert '2 prompts have the id "p3"' in refused(fit(recording, "--plot", "p3", "--out", out))
    assert not out.exists()
    assert document(recording)["summary"]["prompts"] == 80
    for name in ("x.png", "x.svg.html"):
        assert "give FILE.svg" in refused(fit(recording, "--plot", "p3", "--out", tmp_path / name))


def test_people_get_a_table(recording):
    done = fit(recording, "--bootstrap", 10)
    assert done.returncode == 0 and done.stderr == b""
    text = done.stdout.decode()
    assert "40 prompts, 1200 lengths" in text
    for family in STANDARD:
        assert family in text
    assert "nan" not in text and "bootstrap" in text and "p5" not in text


def test_a_few_prompts_are_shown_each():
    text = fit("-", stdin=lines({"id": "one", "lengths": [3, 5, 8, 9, 12, 40]}, {"id": "same", "lengths": [5] * 9}).encode()).stdout.decode()
    assert '"one": 6 lengths' in text and "log-normal mu" in text
    assert '"same": 9 lengths' in text and "log-t has no maximum: " in text
    assert "not judged: 2 with fewer than 10 lengths" in text


def draws(seed, n, cap=None):
    rng = random.Random(seed)
    lengths = [max(1, round(rng.lognormvariate(5, 0.8))) for _ in range(n)]
    return [min(x, cap) for x in lengths] if cap else lengths


def table_of(*args, records):
    done = fit("-", *args, stdin=lines(*records).encode())
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_one_of_anything_is_singular():
    text = table_of(records=[{"id": "a", "lengths": draws(1, 12)}])
    assert "1 prompt, 12 lengths" in text and "1 prompt judged" in text
    assert '"b": 1 length,' in table_of(records=[{"id": "b", "lengths": [7]}])
    assert "2 prompts, 24 lengths" in table_of(records=[{"id": x, "lengths": draws(1, 12)} for x in "ab"])


def test_tables_that_could_test_few_prompts_say_how_many():
    records = [{"id": f"p{i}", "lengths": draws(i, 40, 300), "cap": 300} for i in range(8)] + [{"id": "free", "lengths": draws(99, 40)}]
    text = table_of("--max-capped", "1", records=records)
    row = next(line.split() for line in text.splitlines() if line.startswith("log-normal "))
    assert row[:6] == ["log-normal", "100.0", "%", "1", "of", "1"], row
    assert "tables: only prompts without capped lengths; use --bootstrap 200\n" in text
    assert "use --bootstrap" not in table_of("--max-capped", "1", "--bootstrap", "5", records=records)


def test_prompts_at_the_cap_come_with_a_way_to_judge_them():
    records = [{"id": f"p{i}", "lengths": draws(i, 40, 300), "cap": 300} for i in range(5)]
    text = table_of(records=records)
    assert "not judged: 5 with 2 % or more at the cap (judge them too: --max-capped 1 --bootstrap 200; every prompt's fits: --json)" in text
    assert "5 prompts judged" in table_of("--max-capped", "1", "--bootstrap", "5", records=records)


def test_a_limit_that_was_not_named_is_suspected():
    records = [{"id": "cut", "lengths": draws(3, 50, 200)}, {"id": "whole", "lengths": draws(4, 50)}]
    at_cap = records[0]["lengths"].count(200)
    text = table_of(records=records)
    assert f'1 prompt without a cap has many lengths equal to the longest; of "cut", {at_cap} of 50 lengths are 200: if that was the limit, ' \
           'give "cap": 200\n' in text
    assert [p["suspected_cap"] for p in document("-", stdin=lines(*records).encode())["prompts"]] == [200, None]
    records[0]["cap"] = 200
    assert "if that was the limit" not in table_of(records=records)


def test_holding_out_says_when_no_prompt_is_long_enough():
    records = [{"id": "a", "lengths": draws(5, 40)}]
    assert "held out: no prompt that is judged has 50 lengths; see --holdout-min" in table_of("--holdout", records=records)
    text = table_of("--holdout", "--holdout-min", "20", "--family", "log-t", records=records)
    assert "All laws, fitted to half" in text and "empirical" in text and "held out: no" not in text
    assert "held out: no" in table_of("--holdout", records=[{"id": "few", "lengths": [1, 2, 3]}])
    assert "--holdout-min requires --holdout" in refused(fit("-", "--holdout-min", "5", stdin=lines(*records).encode()))


def test_tiny_p_values_are_not_given_to_three_digits():
    rng = random.Random(6)
    text = table_of("--family", "exponential", records=[{"id": "a", "lengths": [rng.randint(990, 1010) for _ in range(60)]}])
    row = next(line for line in text.splitlines() if line.startswith("exponential scale"))
    assert row.split()[-2:] == ["<0.001", "<0.001"]


def test_rows_for_the_other_command_are_told_apart():
    message = refused(fit("-", stdin=b'{"id":"a","length":12,"messages":[]}\n'))
    assert '"length" found' in message and "tailrace evaluate" in message


PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/length-laws.md"


def test_the_page_shows_what_the_program_prints():
    command, printed = re.search(r"```console\n\$ (.*?)\n(.*?\n)```", PAGE.read_text(), re.DOTALL).groups()
    record = re.fullmatch(r"echo '(.*)' \| tailrace fit -", command).group(1)
    assert fit("-", stdin=record.encode()).stdout.decode() == printed


def test_the_page_explains_every_field_of_a_prompt():
    text = PAGE.read_text()
    prompt = document("-", "--holdout", "--holdout-min", "20", stdin=lines({"id": "a", "lengths": draws(7, 40)}).encode())["prompts"][0]
    explained = set(re.findall(r"`([a-z_0-9]+)`", text[text.index("## For programs"):text.index("## The laws")])) | {"fits"}
    assert set(prompt) <= explained
    assert set(prompt["shape"]) - {"p90_over_p50", "p99_over_p50"} <= explained
    assert set(prompt["fits"]["log-t"]) - {"mu", "sigma", "nu"} <= explained


def test_the_examples_of_the_help_work(tmp_path):
    help_text = fit("--help").stdout.decode()
    examples = [line.strip() for line in help_text.splitlines() if "| tailrace fit" in line]
    assert len(examples) == 3
    for example in examples:
        done = subprocess.run(["bash", "-c", example], cwd=tmp_path, capture_output=True, timeout=60,
                              env={**os.environ, "PATH": f"{os.path.dirname(BIN)}:{os.environ['PATH']}"})
        assert done.returncode == 0 and b"lengths" in done.stdout, (example, done.stderr)
    assert (tmp_path / "a.svg").is_file()


def test_recordings_work_as_they_are(shared):
    data = shared / "data"
    for name, prompts in (("llm_variance_100x", 48), ("codet_humaneval", 111), ("tree_of_thoughts", 304)):
        path = data / name / "samples.jsonl.gz"
        if not path.is_file():
            pytest.skip(f"no {path}")
        result = document(path)
        ids = [prompt["id"] for prompt in result["prompts"]]
        assert len(ids) == prompts == len(set(ids)), name
    pooled = document(data / "oasst_model_eval/output_lengths.jsonl.gz", "--pool", "--family", "log-normal")
    assert pooled["summary"]["prompts"] > 10_000


COMMANDS = ["fit", "evaluate", "predict", "score", "serve", "check", "explain", "engine", "load", "version"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_flag_is_named_with_its_command(command):
    done = subprocess.run([BIN, command, "--zzzzzzzzzz"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == (f'tailrace {command}: there is no flag "--zzzzzzzzzz" (tailrace {command} --help lists all)\n')


@pytest.mark.parametrize("args, command, meant", [
    (["fit", "--bootsrap", "3", "x"], "fit", "--bootstrap"), (["fit", "--bootsrap=3"], "fit", "--bootstrap"), (["score", "--jsno"], "score", "--json"),
    (["evaluate", "--predictors", "online", "x"], "evaluate", "--predictor"), (["fit", "x", "-plot", "a"], "fit", "--plot"),
])
def test_a_misspelt_flag_gets_the_nearest_name(args, command, meant):
    done = subprocess.run([BIN, *args], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and done.stderr.startswith(f"tailrace {command}: there is no flag ") and f"did you mean {meant}?" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_else_is_wrong_with_arguments_is_said_in_one_line():
    for args, words in ((["fit"], "tailrace fit: FILE is required"), (["version", "more"], 'tailrace version: "more" was not expected'),
                        (["--vesion"], 'tailrace: there is no flag "--vesion"; did you mean --version?')):
        done = subprocess.run([BIN, *args], capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and done.stderr.startswith(words) and done.stderr.count("\n") == 1, done.stderr
