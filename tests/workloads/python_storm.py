"""Everything in an interpreter that moves frames, at once: python_storm.py ROUNDS

Threads that collect garbage, raise, recurse, evaluate new code, run generators and coroutines, and call back from C, while the main
thread starts short threads and forks. Prints a checksum that depends on nothing but ROUNDS.
"""

import asyncio
import functools
import gc
import os
import sys
import threading

ROUNDS = int(sys.argv[1])


class Node:
    def __init__(self, depth):
        self.own = self
        self.children = [Node(depth - 1) for _ in range(2)] if depth else []

    def __del__(self):
        finalized.append(len(self.children))


finalized = []


def collect(round):
    Node(4)
    gc.collect()
    return round


def descend(depth):
    if depth == 0:
        raise KeyError(depth)
    try:
        descend(depth - 1)
    except KeyError:
        if depth % 3:
            raise
        raise KeyError(depth) from None


def throw(round):
    try:
        descend(40)
    except KeyError as error:
        return error.args[0]


def evaluate(round):
    space = {}
    exec(f"def made_{round}(n):\n    return sum(i * {round} for i in range(n))", space)
    return space[f"made_{round}"](50)


def delegate(depth):
    if depth:
        yield from delegate(depth - 1)
    yield depth


def generate(round):
    half = delegate(20)
    for _ in range(10):
        next(half)
    half.close()
    return sum(delegate(30))


async def leaf(number):
    await asyncio.sleep(0)
    return number


async def tree(number):
    if number < 2:
        return await leaf(number)
    return sum(await asyncio.gather(tree(number // 2), tree(number - number // 2)))


def coroutines(round):
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(tree(30))
    finally:
        loop.close()


def key(value):
    return functools.reduce(lambda left, right: left ^ right, range(value % 20), value)


def call_back(round):
    return sum(sorted(range(100), key=key)[:10])


PARTS = (collect, throw, evaluate, generate, coroutines, call_back)


def storm(index, results):
    total = 0
    for round in range(ROUNDS):
        for part in PARTS:
            total = (total * 31 + int(part(round) or 0)) % 1000003
    results[index] = total


def fork():
    child = os.fork()
    if child == 0:
        total = sum(generate(round) for round in range(5))
        os._exit(total % 100)
    return os.WEXITSTATUS(os.waitpid(child, 0)[1])


def main():
    results = [None] * 3
    threads = [threading.Thread(target=storm, args=(index, results)) for index in range(3)]
    for thread in threads:
        thread.start()
    shorts = 0
    for _ in range(ROUNDS):
        short = threading.Thread(target=call_back, args=(0,))
        short.start()
        short.join()
        shorts += 1
    for thread in threads:
        thread.join()
    # Only once the others are gone: a fork child of a program with threads may not do much.
    forks = {fork() for _ in range(3)}
    print("checksum", results, shorts, forks)


main()
