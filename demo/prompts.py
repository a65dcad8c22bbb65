"""What does the demo ask? Requests of four kinds, written from templates, the same ones for the same seed.

Subjects are split in two: the warm-up asks about one half, the measured rounds about the other, so that nothing measured has been
seen before. Every request has the same limit on its answer, so the limit gives no order away.
"""
import dataclasses
import random

ANSWER_TOKENS_MAX = 320

# Share of each kind among the requests.
MIX = {"factual": 0.40, "summary": 0.25, "code": 0.20, "creative": 0.15}

# Where no real model answers: how long the emulator's answers are, as (median, spread of the logarithm) of each kind.
EMULATED_TOKENS = {"factual": (9, 0.5), "summary": (18, 0.4), "code": (150, 0.5), "creative": (600, 0.4)}

COUNTRIES = """Argentina Australia Austria Belgium Bolivia Brazil Bulgaria Canada Chile China Colombia Croatia Cuba Denmark Ecuador Egypt
Estonia Ethiopia Finland France Germany Ghana Greece Hungary Iceland India Indonesia Iran Ireland Israel Italy Jamaica Japan Jordan Kenya
Latvia Lithuania Malaysia Mexico Mongolia Morocco Nepal Netherlands Nigeria Norway Pakistan Panama Peru Poland Portugal Romania Senegal
Serbia Spain Sweden Switzerland Thailand Tunisia Turkey Uganda Ukraine Uruguay Vietnam Zambia""".split()

TOWNS = """Ashford Brookvale Carrick Denholm Eastwick Fairmont Glenmore Harwick Inverley Kingsford Larkhill Millbrook Northam Oakridge
Penrose Quarry-Hill Redcliff Stonebridge Thornbury Upton Valeford Westbrook Yarrow Zellwood""".split()

EVENTS = [
    "The library in {} closed for repairs in March. Readers can use the school library until the work is done in autumn.",
    "Heavy rain flooded two streets in {} on Sunday. Volunteers pumped out the cellars and nobody was hurt.",
    "A bakery in {} won a national prize for its rye bread. The owner says that the recipe came from her grandmother.",
    "The bus company in {} bought six electric buses. They are quieter than the old ones and cost less to run.",
    "Farmers near {} expect a small harvest after a dry summer. Bakers fear that flour will become dearer.",
    "The football team of {} lost its first match but won the next five. The coach praised the young players.",
    "A new bridge opened in {} after two years of work. The ferry that it replaces will become a museum.",
    "Students in {} built a small telescope from old parts. They used it to photograph the rings of Saturn.",
]

CODE_TASKS = """reverses a string|checks whether a number is prime|computes the factorial of a number|merges two sorted lists
counts the words in a text|finds the largest item of a list|computes Fibonacci numbers|removes duplicates from a list
parses a line of CSV|sorts a list of tuples by the second item|checks whether a word is a palindrome|flattens a nested list
converts Celsius to Fahrenheit|counts the vowels in a sentence|computes the greatest common divisor of two numbers
transposes a matrix|finds the second largest number|validates an e-mail address|rotates a list by k places|counts letters with a dictionary
implements binary search|implements bubble sort|computes the mean and the median of a list|converts a number to binary
converts Roman numerals to integers|checks whether two words are anagrams|reads a file and numbers its lines
finds the longest word of a sentence|splits a list into chunks of n|computes the dot product of two vectors
finds the intersection of two lists|capitalises every word of a text|generates a random password|computes compound interest
checks whether a year is a leap year|computes the sum of the digits of a number|zips two lists into a dictionary
finds all divisors of a number|implements a stack with push and pop|computes powers without the power operator
replaces spaces by underscores|computes the distance between two points|encrypts a text with a Caesar cipher
finds missing numbers in a sequence|groups words by their first letter|checks whether brackets are balanced
multiplies two matrices|prints a multiplication table|inverts a dictionary|computes a moving average""".replace("\n", "|").split("|")

CREATIVE_SUBJECTS = """a lighthouse keeper|a dragon and a boy|a robot who learns to paint|two friends and a boat|a lost city in the jungle
a winter journey|a talking cat|a brave baker|a storm at sea|a secret garden|a clock that runs backwards|a village under the ice
a girl who speaks with birds|the last train of the night|a map without names|a violin maker|a desert caravan|an old astronaut
a forest that moves|a letter that arrives late|a mountain guide|a library of dreams|a painter who cannot see colours|a circus in the rain
a ship made of glass|the king who could not sleep|a bridge between two worlds|a fox and a clockmaker|a festival of lanterns
a doctor on an island|a music box|a river that forgot its way|a detective in a small town|a gardener on the moon
a tree that grows books|a chess game with a ghost|a city of bridges|a baker and a bear|an orphan and a falcon
the keeper of the tides""".replace("\n", "|").split("|")

# kind → (templates, subjects)
KINDS = {
    "factual": (["What is the capital of {}? Answer in one word.", "Name the currency of {}. Answer briefly.",
                 "On which continent is {}? Answer in one word."], COUNTRIES),
    "summary": (["Summarise in one sentence: {}", "Give the main point of this note in one short sentence: {}"],
                [event.format(town) for town in TOWNS for event in EVENTS]),
    "code": (["Write a Python function that {}.", "Write a short Python function which {}, with an example call.",
              "Show me Python code that {}."], CODE_TASKS),
    "creative": (["Write a long story about {}.", "Write a long and detailed bedtime story about {}.",
                  "Write the first chapter of a novel about {}."], CREATIVE_SUBJECTS),
}


@dataclasses.dataclass(frozen=True)
class Request:
    name: str  # "measured-17": the same request in every round
    kind: str
    prompt: str
    emulated_tokens: int  # what the emulator answers; a real model decides itself

    def body(self, model, seed, emulated):
        """The OpenAI request. Streamed, so that time to first token can be seen; greedy, so that rounds can be compared."""
        body = {"model": model, "messages": [{"role": "user", "content": self.prompt}], "max_tokens": ANSWER_TOKENS_MAX,
                "temperature": 0, "seed": seed, "stream": True, "stream_options": {"include_usage": True}}
        if emulated:
            body["emulator_output_tokens"] = self.emulated_tokens
        return body


def counts(total):
    """How many of each kind among `total`; at least one of each, largest remainders first."""
    exact = {kind: total * share for kind, share in MIX.items()}
    whole = {kind: max(1, int(amount)) for kind, amount in exact.items()}
    for kind in sorted(MIX, key=lambda k: exact[k] - whole[k], reverse=True):
        if sum(whole.values()) < total:
            whole[kind] += 1
    return whole


def available(part):
    """The largest total for which `requests` has enough different prompts."""
    return min(int(len(_prompts(kind, part)) / share) for kind, share in MIX.items()) - len(MIX)


def _prompts(kind, part):
    templates, subjects = KINDS[kind]
    mine = subjects[0 if part == "warm-up" else 1::2]
    return [template.format(subject) for template in templates for subject in mine]


def requests(part, total, seed):
    """`total` different requests of the mix in random order; `part` is "warm-up" or "measured"."""
    if total > available(part):
        raise ValueError(f"{total} requests are asked for, but there are prompts for {available(part)} only")
    rng = random.Random(f"{seed} {part}")
    chosen = []
    for kind, count in counts(total).items():
        median, spread = EMULATED_TOKENS[kind]
        for prompt in rng.sample(_prompts(kind, part), count):
            chosen.append((kind, prompt, max(1, round(median * rng.lognormvariate(0, spread)))))
    rng.shuffle(chosen)
    return [Request(f"{part}-{number}", *what) for number, what in enumerate(chosen)]
