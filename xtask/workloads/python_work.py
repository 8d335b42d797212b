"""A fixed amount of work, most of it in the interpreter and some in numpy: python_work.py --units U [--pure]."""

import sys

import report

PURE = "--pure" in sys.argv
if not PURE:
    import numpy


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def words(count):
    table = {}
    for number in range(count):
        key = str(number % 97)
        table[key] = table.get(key, 0) + number
    return len(table)


def matrices(matrix):
    product = matrix @ matrix
    product /= numpy.abs(product).max()
    return numpy.sort(product, axis=None)[::100].sum()


units = int(float(sys.argv[sys.argv.index("--units") + 1]))
if not PURE:
    square = numpy.random.default_rng(1).random((100, 100))
started = report.begin()
for _ in range(units):
    fibonacci(14)
    words(600)
    if not PURE:
        matrices(square)
report.end(started)
