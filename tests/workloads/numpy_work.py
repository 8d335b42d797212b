"""Matrix products and a sort in numpy, from two threads. Prints a checksum that does not depend on timing."""

import threading

import numpy

results = {}


def products(seed):
    random = numpy.random.default_rng(seed)
    matrix = random.random((200, 200))
    total = 0.0
    for _ in range(40):
        matrix = matrix @ matrix
        matrix /= numpy.abs(matrix).max()
        total += float(numpy.sort(matrix, axis=None)[::1000].sum())
    results[seed] = total


threads = [threading.Thread(target=products, args=(seed,)) for seed in (1, 2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print([f"{results[seed]:.6e}" for seed in sorted(results)])
