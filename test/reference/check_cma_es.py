"""Prints the numbers that src/experiment/search/cma-es.test.ts has from other programs: distributions of the package cmaes
after it was told given points, and the evaluations that cmaes and pycma need on standard functions.

Not part of `npm test`. Needs numpy, cmaes (0.13.1) and cma (4.5.0):
    python test/reference/check_cma_es.py
"""
import numpy as np
import cma
from cmaes import CMA, CMAwM


def sequence():
    x = 1
    while True:
        x = (x * 1103515245 + 12345) % 2**31
        yield x / 2**31


def bowl(x):
    return sum((i + 1) * (v - 0.3) ** 2 for i, v in enumerate(x))


def tell(search, generations, point):
    numbers = sequence()
    for _ in range(generations):
        points = [np.array(point(numbers)) for _ in range(search.population_size)]
        search.tell([(x, bowl(x)) for x in points])


def narrow(numbers):
    return [start + 0.05 * next(numbers) for start in [0.3, 0.2, 0.7, 0.55]]


search = CMA(mean=np.full(3, 0.5), sigma=0.3, seed=1)
tell(search, 5, lambda numbers: [0.2 + 0.6 * next(numbers) for _ in range(3)])
print("real:", list(search._mean), search._sigma, search._C.tolist())

CELLS = [4, 0, 2, 7]
BOUNDS = np.array([[0.5 / n, 1 - 0.5 / n] if n else [0, 1] for n in CELLS])
STEPS = np.array([1 / n if n else 0 for n in CELLS])
for generations, start, sigma in [(6, [0.4, 0.5, 0.45, 0.6], 0.3), (2, [0.32, 0.22, 0.72, 0.57], 0.02)]:
    search = CMAwM(mean=np.array(start), sigma=sigma, bounds=BOUNDS, steps=STEPS, seed=1)
    tell(search, generations, narrow)
    print(f"margin, {generations} generations:", list(search.mean), search._cma._sigma, search._A.tolist(),
          np.diag(search._cma._C).tolist())

FUNCTIONS = {
    "sphere": (6, lambda x: float(np.sum((x - 0.3) ** 2))),
    "ellipsoid": (6, lambda x: float(np.sum(10 ** (6 * np.arange(6) / 5) * (x - 0.3) ** 2))),
    "rosenbrock": (4, lambda x: float(np.sum(100 * (x[:-1] ** 2 - x[1:]) ** 2 + (1 - x[:-1]) ** 2))),
}


def evaluations(ask, tell, f):
    count = 0
    while count < 20000:
        points = ask()
        values = [f(np.asarray(x)) for x in points]
        count += len(points)
        if min(values) < 1e-9:
            return count
        tell(points, values)
    return count


for name, (size, f) in FUNCTIONS.items():
    counts = {"cmaes": [], "pycma": []}
    for seed in range(1, 16):
        own = CMA(mean=np.full(size, 0.5), sigma=0.3, seed=seed)
        counts["cmaes"].append(evaluations(lambda: [own.ask() for _ in range(own.population_size)],
                                           lambda points, values: own.tell(list(zip(points, values))), f))
        other = cma.CMAEvolutionStrategy(np.full(size, 0.5), 0.3, dict(seed=seed, verbose=-9, tolfun=0, tolx=0, tolfunhist=0))
        counts["pycma"].append(evaluations(other.ask, other.tell, f))
    print(name, {program: int(np.median(found)) for program, found in counts.items()}, "evaluations, median of 15 seeds")
