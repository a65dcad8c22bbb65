"""What do the measured rounds say? Pure functions: the same numbers in, the same numbers out."""
import dataclasses
import math
import random
import statistics

BOOTSTRAP_DRAWS = 4000
HISTOGRAM_EDGES = (1, 8, 16, 32, 64, 128, 256)
METRICS = ("ttft_s", "per_token_s", "end_to_end_s")


@dataclasses.dataclass(frozen=True)
class Sample:
    """One request in one round. Times in seconds from the moment at which it was meant to be sent."""
    name: str
    kind: str
    output_tokens: int
    ttft_s: float
    end_to_end_s: float
    between_tokens_s: float | None = None  # mean gap; nothing for answers of one token
    predicted_median: float | None = None
    error: str = ""

    @property
    def per_token_s(self):
        return self.end_to_end_s / self.output_tokens


def percentile(values, p):
    """Linear between the two nearest order statistics, as in most tools."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * p / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summary(values):
    return {"mean": statistics.fmean(values), "p50": percentile(values, 50), "p90": percentile(values, 90), "p99": percentile(values, 99)}


def paired_ratio(before, after, metric, seed, draws=BOOTSTRAP_DRAWS):
    """Mean of the metric in the rounds `before` over that in the rounds `after`, with a 95 % interval by a paired bootstrap.

    Each draw resamples requests (the same ones on both sides, each averaged over its rounds) and, since a machine is not equally
    quiet all the time, the rounds of either side. Requests that failed in any round are left out.
    """
    values = [[{s.name: getattr(s, metric) for s in samples if not s.error} for samples in side] for side in (before, after)]
    names = sorted(set.intersection(*(set(one) for side in values for one in side)))
    if len(names) < 2:
        return None
    columns = [[[one[name] for name in names] for one in side] for side in values]
    everywhere = range(len(names))

    def ratio(sides, places):
        over, under = (sum(sum(map(column.__getitem__, places)) for column in side) / len(side) for side in sides)
        return over / under

    rng = random.Random(seed)
    drawn = sorted(ratio([rng.choices(side, k=len(side)) for side in columns], rng.choices(everywhere, k=len(names))) for _ in range(draws))
    low, high = percentile(drawn, 2.5), percentile(drawn, 97.5)
    return {"ratio": ratio(columns, everywhere), "low": low, "high": high, "requests": len(names), "difference_shown": not low <= 1 <= high}


def speed_ratio(before, after):
    """How many times slower the engine itself made tokens in the rounds `before` than in `after`: far from 1, something disturbed it."""
    slow, fast = (statistics.fmean(statistics.median(gaps) for gaps in side) if all(side) else None
                  for side in ([[s.between_tokens_s for s in samples if not s.error and s.between_tokens_s] for samples in rounds]
                               for rounds in (before, after)))
    return slow / fast if slow and fast else None


def by_kind(rounds_of_policy, metric):
    """{kind: mean of the metric} over all rounds of a policy."""
    values = {}
    for sample in (s for samples in rounds_of_policy for s in samples if not s.error):
        values.setdefault(sample.kind, []).append(getattr(sample, metric))
    return {kind: statistics.fmean(those) for kind, those in sorted(values.items())}


def histogram(lengths, cap):
    """[(first, last, count)] with doubling bins; those cut at the cap stand alone."""
    edges = [edge for edge in HISTOGRAM_EDGES if edge < cap]
    bins = [(low, high - 1) for low, high in zip(edges, edges[1:])] + [(edges[-1], cap - 1), (cap, cap)]
    return [(low, high, sum(low <= length <= high for length in lengths)) for low, high in bins]


def equal_lengths_share(rounds):
    """Share of requests whose answer was equally long in all rounds."""
    lengths = {}
    for sample in (s for samples in rounds for s in samples if not s.error):
        lengths.setdefault(sample.name, []).append(sample.output_tokens)
    whole = [those for those in lengths.values() if len(those) == len(rounds)]
    return sum(len(set(those)) == 1 for those in whole) / len(whole) if whole else None


def ranks(values):
    """Ranks from 1; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    result, start = [0.0] * len(values), 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in range(start, end + 1):
            result[order[place]] = (start + end) / 2 + 1
        start = end + 1
    return result


def rank_correlation(a, b):
    """Spearman's; nothing where one side does not vary."""
    if len(a) < 3 or len(set(a)) < 2 or len(set(b)) < 2:
        return None
    return statistics.correlation(ranks(a), ranks(b))


def capacity(service_s, mix, slots):
    """Requests per second of the mix that keep `slots` busy, from the mean time that each kind holds a slot.

    Weighted by the mix, so that the warm-up need not have stopped at exactly its shares; kinds not seen are left out.
    """
    seen = {kind: mix[kind] for kind in service_s}
    return slots * sum(seen.values()) / sum(share * service_s[kind] for kind, share in seen.items())


def requests_that_fit(seconds, rounds, capacity_per_s, tail_s, most):
    """How many requests a round can have so that all rounds end in time: a round lasts until the engine has served them all."""
    return max(8, min(most, int((seconds / rounds - tail_s) * capacity_per_s)))
