"""Checks the statistics of src/evaluate/scoring against scipy and statsmodels, on simulated studies whose truth is known.

Not part of `npm test`. Needs numpy, scipy and statsmodels. Run from the project's folder, after a build:
    python test/reference/check_statistics.py
    python test/reference/check_statistics.py --studies 4000
Prints, for worlds of experts and items with known effects, how often the 95% interval of `crossedDifference` holds the true
difference, and how often p is below 5% where there is none; beside them a plain crossed bootstrap, and an interval over items
alone. Holm's correction, Student's t, McNemar's test and detectable differences are compared to the digit.
"""
import argparse, json, subprocess, sys, tempfile
from pathlib import Path
import numpy as np
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

parser = argparse.ArgumentParser()
parser.add_argument("--studies", type=int, default=1000)
options = parser.parse_args()
random = np.random.default_rng(7)
DIST = (Path(__file__).parents[2] / "dist" / "verbs" / "subpaths" / "evaluate.js").as_uri()
failures = 0


def check(what, ok):
    global failures
    failures += not ok
    print(f"{'ok       ' if ok else 'DIFFERENT'} {what}")


def node(code, value):
    """Runs JavaScript over a value, with the library as `lib`."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(value, file)
        file.flush()
        script = f'import * as lib from "{DIST}"; import {{ readFileSync }} from "node:fs"; const input = JSON.parse(readFileSync("{file.name}", "utf8")); console.log(JSON.stringify(({code})(input)));'
        return json.loads(subprocess.run(["node", "--input-type=module", "-e", script], check=True, capture_output=True, text=True).stdout)


# Holm's correction and McNemar's exact test.
families = [random.random(size).round(4).tolist() for size in (1, 2, 5, 30)]
found = node("(families) => families.map((one) => lib.holmAdjust(one))", families)
expected = [multipletests(one, method="holm")[1].tolist() for one in families]
check("Holm: statsmodels' multipletests", all(np.allclose(a, b, rtol=0, atol=1e-12) for a, b in zip(found, expected)))
pairs = [[int(a), int(b)] for a, b in random.integers(0, 60, (40, 2))]
found = node("(pairs) => pairs.map(([a, b]) => lib.mcnemarExact(a, b))", pairs)
expected = [mcnemar([[5, a], [b, 5]], exact=True).pvalue for a, b in pairs]
check("McNemar: statsmodels' mcnemar", np.allclose(found, expected, rtol=0, atol=1e-10))

# Power of the exact test at the detectable difference, simulated.
for items, discordance, comparisons in ((250, 0.1, 1), (250, 0.3, 1), (1000, 0.15, 1), (250, 0.2, 4)):
    size = node("([items, discordance, comparisons]) => lib.detectableDifference({ items, discordance }, { comparisons })", [items, discordance, comparisons])
    draws = random.multinomial(items, [(discordance + size) / 2, (discordance - size) / 2, 1 - discordance], size=20_000)
    tests = {pair: stats.binomtest(pair[0], sum(pair)).pvalue if sum(pair) else 1 for pair in {(int(a), int(b)) for a, b, _ in draws}}
    power = np.mean([tests[int(a), int(b)] < 0.05 / comparisons for a, b, _ in draws])
    check(f"{items} items, {discordance:.0%} flips, {comparisons} comparisons: {100 * size:.2f} points, found with power {power:.3f}", 0.78 < power < 0.85)

CROSSED = """(studies) => studies.map(({ first, second }) => {
  const models = (side) => side.map(({ levels, values }) => ({ levels, values: new Map(values.map((value, i) => [String(i), value])) }));
  const { interval, pValue, degrees, difference } = lib.crossedDifference(models(first), models(second));
  return { low: interval?.low ?? difference, high: interval?.high ?? difference, deviation: interval?.deviation ?? 0, pValue: pValue ?? 1, degrees };
})"""

# Against the classical two-way analysis of variance: by hand in numpy, t by scipy.
y = random.normal(0, 1, (4, 30)) + random.normal(0, 1, (4, 1)) + random.normal(0, 1, (1, 30))
[found] = node(CROSSED, [{"first": [{"levels": {}, "values": [0] * 30}], "second": [{"levels": {"seed": str(i)}, "values": row.tolist()} for i, row in enumerate(y)]}])
rows, columns = y.mean(1) - y.mean(), y.mean(0) - y.mean()
rest = y - y.mean() - rows[:, None] - columns[None, :]
parts = np.array([(rows**2).sum() / 12, (columns**2).sum() / (30 * 29), (rest**2).sum() / (120 * 3 * 29)])
variance = parts[0] + parts[1] - parts[2]
degrees = variance**2 / (parts**2 / [3, 29, 87]).sum()
# Fewer where the two intervals, over seeds and over items, are wider together.
separate = ((variance - parts[1]) * stats.t.ppf(0.975, 3) ** 2 + parts[1] * stats.t.ppf(0.975, 29) ** 2) / variance
if separate > stats.t.ppf(0.975, degrees) ** 2:
    degrees = optimize.brentq(lambda df: stats.t.ppf(0.975, df) ** 2 - separate, 1, degrees)
p = 2 * stats.t.sf(abs(y.mean()) / variance**0.5, degrees)
check(f"two-way variance, degrees {degrees:.2f}, p {p:.4f}", np.allclose([found["deviation"], found["degrees"], found["pValue"]], [variance**0.5, degrees, p], rtol=1e-8))


def study(experts, items, of_expert, of_pair, lead):
    """Answers of one base and of the merges of all pairs, probit models with crossed random effects."""
    a, b = (random.normal(0, of_expert, count) for count in experts)
    ease = random.normal(0, 1, items)
    base = (ease + random.normal(0, 1, items) > 0).astype(float)
    ability = lead + a[:, None, None] + b[None, :, None] + random.normal(0, of_pair, (*experts, 1)) + ease
    return base, (ability + random.normal(0, 1, ability.shape) > 0).astype(float)


def plain(merges, base, resamples=400):
    """The crossed bootstrap as Owen has it, without a scale; and one over items alone."""
    d = merges - base
    a, b, i = (random.multinomial(n, [1 / n] * n, size=resamples) / n for n in d.shape)
    crossed = np.einsum("ra,rb,ri,abi->r", a, b, i, d, optimize=True)
    return np.quantile(crossed, [0.025, 0.975]), np.quantile(i @ d.mean((0, 1)), [0.025, 0.975])


print(f"\n{options.studies} studies each; 95% within simulation error is {95 - 300 * (0.95 * 0.05 / options.studies) ** 0.5:.1f} to {95 + 300 * (0.95 * 0.05 / options.studies) ** 0.5:.1f}")
print("experts  items  deviation of experts, pairs  lead   | coverage  plain  items only | p < 5%")
for experts, items, of_expert, of_pair, lead in (
    ((4, 4), 250, 0.0, 0.0, 0.3), ((4, 4), 250, 0.1, 0.05, 0.3), ((4, 4), 250, 0.3, 0.1, 0.0), ((3, 3), 250, 0.3, 0.1, 0.0),
    ((3, 3), 250, 0.05, 0.05, 0.0), ((2, 3), 250, 0.1, 0.1, 0.0), ((8, 8), 60, 0.2, 0.1, 0.3),
):
    truth = stats.norm.cdf(lead / np.sqrt(2 + 2 * of_expert**2 + of_pair**2)) - 0.5
    held, significant = np.zeros(3), 0
    for start in range(0, options.studies, 100):
        batch = [study(experts, items, of_expert, of_pair, lead) for _ in range(min(100, options.studies - start))]
        found = node(CROSSED, [{
            "first": [{"levels": {}, "values": base.tolist()}],
            "second": [{"levels": {"a": str(i), "b": str(j)}, "values": merges[i, j].tolist()} for i in range(experts[0]) for j in range(experts[1])],
        } for base, merges in batch])
        for (base, merges), one in zip(batch, found):
            crossed, alone = plain(merges, base)
            held += [low <= truth <= high for low, high in ((one["low"], one["high"]), crossed, alone)]
            significant += one["pValue"] < 0.05
    coverage, unscaled, alone = 100 * held / options.studies
    wrong = 100 * significant / options.studies
    margin = 300 * (0.95 * 0.05 / options.studies) ** 0.5
    # Conservative by up to 2 points where experts hardly differ: the interval is never narrower than over items alone.
    ok = 95 - margin <= coverage <= 97 + margin and (lead != 0 or wrong <= 5 + margin)
    check(f"{experts[0]} x {experts[1]}  {items:5}  {of_expert:10} {of_pair:12}  {lead:12}   | {coverage:8.1f} {unscaled:6.1f} {alone:11.1f} | {f'{wrong:.1f}' if lead == 0 else ''}", ok)
sys.exit(failures > 0)
