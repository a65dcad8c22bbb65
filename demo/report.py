"""What the reader gets: the tables on the screen, and the same with all details in the report's folder."""
import csv
import json

import measures

BAR_WIDTH = 40
WEAK_BELOW_REQUESTS = 30
# The engine is as busy under either order; a larger change of its speed comes from outside.
SPEED_CHANGE_MAX = 1.2
# Below it the two orders are one.
DECIDED_SHARE_MIN = 0.2
METRIC_NAMES = {"ttft_s": "time to first token", "per_token_s": "time per output token", "end_to_end_s": "end to end"}
CSV_FIELDS = ["round", "policy", "name", "kind", "output_tokens", "ttft_s", "end_to_end_s", "per_token_s", "between_tokens_s",
              "predicted_median", "error"]


def figure(seconds):
    """Three digits that a person can read: 840 ms, 12.3 s."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms" if seconds < 0.0995 else f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"


def table(header, rows):
    """Plain columns that are also a Markdown table: first column left, the rest right."""
    cells = [header, *rows]
    widths = [max(len(str(row[i])) for row in cells) for i in range(len(header))]

    def line(row):
        return "| " + " | ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w) for i, (c, w) in enumerate(zip(row, widths))) + " |"

    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([line(header), rule, *map(line, rows)])


def latency_table(result):
    before, after = result["policies"]
    rows = []
    for metric, name in METRIC_NAMES.items():
        for statistic in ("mean", "p50", "p90", "p99"):
            old, new = (result["latency"][policy][metric][statistic] for policy in (before, after))
            label = statistic if statistic == "mean" else statistic.upper()
            rows.append([f"{name}, {label}", figure(old), figure(new), f"{old / new:.2f}"])
    return table(["", before, after, f"{before} / {after}"], rows)


def kind_table(result):
    before, after = result["policies"]
    rows = []
    for kind, facts in result["kinds"].items():
        ratio = facts["per_token_s"][before] / facts["per_token_s"][after]
        verdict = f"gains {ratio:.1f}×" if ratio > 1.05 else f"pays {1 / ratio:.1f}×" if ratio < 1 / 1.05 else "same"
        rows.append([kind, facts["requests"], round(facts["median_tokens"]), *(figure(facts["per_token_s"][p]) for p in (before, after)),
                     *(figure(facts["ttft_s"][p]) for p in (before, after)), verdict])
    return table(["kind", "requests", "median tokens", f"per token, {before}", after, f"first token, {before}", after, "per token"], rows)


def histogram_lines(bins):
    most = max(count for _, _, count in bins) or 1
    last = len(bins) - 1
    return [f"  {f'{low}, cut' if i == last else f'{low}-{high}':>9} {'#' * round(BAR_WIDTH * count / most):<{BAR_WIDTH}} {count}"
            for i, (low, high, count) in enumerate(bins)]


def disturbed(result):
    """Whether something outside changed the engine's speed between the two orders' rounds."""
    change = result["speed_ratio"]
    return change is not None and max(change, 1 / change) > SPEED_CHANGE_MAX


def verdict(result):
    """The main result in one sentence."""
    ratio, (before, after) = result["ratio"], result["policies"]
    if ratio is None:
        return "Too few requests went well to compare the two orders."
    interval = f"95 % interval {ratio['low']:.2f} to {ratio['high']:.2f} over {ratio['requests']} requests, paired bootstrap"
    measured = f"mean time per output token {before} / {after} is {ratio['ratio']:.2f} ({interval})"
    if result["predictor"]["decided_share"] < DECIDED_SHARE_MIN:
        return f"No difference shown: the predictor was not calibrated, so {after} fell back to the order of arrival; {measured}."
    if disturbed(result):
        return (f"No difference shown: between the rounds of {before} and {after} the engine's own speed changed by a factor of "
                f"{result['speed_ratio']:.2f}, so something else kept the machine busy; {measured}. Run it again on a quiet machine.")
    if not ratio["difference_shown"]:
        return f"No difference shown: {measured}."
    better = f"{ratio['ratio']:.2f} times lower" if ratio["ratio"] > 1 else f"{1 / ratio['ratio']:.2f} times HIGHER"
    return f"Mean time per output token is {better} with {after} than with {before} ({before} / {after}: {interval})."


def predictor_sentence(result):
    facts = result["predictor"]
    if facts["rank_correlation"] is None:
        quality = "its predictions cannot be compared with the realised lengths"
    else:
        quality = f"rank correlation of predicted median and realised length {facts['rank_correlation']:.2f}"
    decided = facts["decided_share"]
    return (f"Predictor: {quality}; learned from {facts['warm_up_answers']} warm-up answers to other prompts; "
            f"its law decided the place of {decided:.0%} of the requests in the {result['policies'][1]} rounds"
            + ("." if decided >= DECIDED_SHARE_MIN else ": it was not calibrated, and then requests go in the order of arrival."))


def caveats(result):
    notes = ["The kinds are easy to tell apart by their wording: this is the friendly case for a predictor. The interval covers the choice "
             f"of requests and the differences between rounds, not the choice of arrival times."]
    if result["requests_per_round"] < WEAK_BELOW_REQUESTS:
        notes.append(f"Only {result['requests_per_round']} requests a round: a weak result. Run it longer (DEMO_SECONDS, or the default).")
    if result["engine"]["emulated"]:
        notes.append("EMULATED: no language model answered. Lengths were drawn per kind and an emulated engine kept the time.")
    equal = result["equal_lengths_share"]
    if equal is not None and equal < 1:
        notes.append(f"{equal:.0%} of the requests got equally long answers in all rounds; the rest differ because batching changes "
                     "the order of floating-point sums.")
    if result["failed"]:
        notes.append(f"{result['failed']} requests failed and are left out.")
    return notes


def text(result):
    load = result["load"]
    parts = [
        f"# Demo: {' and '.join(result['policies'])} side by side",
        f"{result['date']}, {result['machine']}. Engine: {result['engine']['description']}. "
        f"Rounds {', '.join(result['rounds'])} of the same {result['requests_per_round']} requests with answers of "
        f"{result['mean_tokens']:.0f} tokens on average. Poisson arrivals at {load['rate_per_s']:.2f}/s, {load['factor']} times the "
        f"{load['capacity_per_s']:.2f}/s that the engine serves. Latencies count from the intended send time.",
        verdict(result), latency_table(result),
        "Who gains and who pays, means:", kind_table(result),
        "Realised answer lengths, tokens, first round:\n\n" + "\n".join("    " + line for line in histogram_lines(result["histogram"])),
        predictor_sentence(result), *caveats(result)]
    return "\n\n".join(parts) + "\n"


def write(folder, result, rounds):
    """`rounds`: [(policy, [Sample])] in the order in which they ran."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "report.md").write_text(text(result))
    with open(folder / "requests.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(CSV_FIELDS)
        for number, (policy, samples) in enumerate(rounds, 1):
            for sample in samples:
                writer.writerow([number, policy, *(getattr(sample, field) for field in CSV_FIELDS[2:])])


def compare(rounds, policies, seed):
    """What the rounds say about the two orders. `rounds`: [(policy, [Sample])] in the order in which they ran."""
    before, after = policies
    of = {policy: [samples for p, samples in rounds if p == policy] for policy in policies}
    good = {policy: [s for samples in of[policy] for s in samples if not s.error] for policy in policies}
    first = [s for s in rounds[0][1] if not s.error]
    kinds = {}
    for kind in sorted({s.kind for s in first}, key=lambda k: measures.percentile([s.output_tokens for s in first if s.kind == k], 50)):
        lengths = [s.output_tokens for s in first if s.kind == kind]
        kinds[kind] = {"requests": len(lengths), "median_tokens": measures.percentile(lengths, 50),
                       **{metric: {p: measures.by_kind(of[p], metric)[kind] for p in policies} for metric in measures.METRICS}}
    return {
        "policies": list(policies), "rounds": [policy for policy, _ in rounds], "requests_per_round": len(rounds[0][1]),
        "failed": sum(bool(s.error) for _, samples in rounds for s in samples),
        "latency": {p: {m: measures.summary([getattr(s, m) for s in good[p]]) for m in measures.METRICS} for p in policies},
        "ratio": measures.paired_ratio(of[before], of[after], "per_token_s", seed),
        "speed_ratio": measures.speed_ratio(of[before], of[after]),
        "kinds": kinds, "equal_lengths_share": measures.equal_lengths_share([samples for _, samples in rounds]),
        "mean_tokens": sum(s.output_tokens for s in first) / len(first),
    }
