"""multiprocessing in one of its ways to start: mp_pool.py fork|spawn|forkserver. The pool is torn down by SIGTERM."""

import multiprocessing
import sys
import time


def busy(number):
    end = time.process_time() + 0.15
    value = number
    while time.process_time() < end:
        value = (value * 1103515245 + 12345) % 2147483648
    return number * number


def main():
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:  # leaving the block terminates the workers
        print(pool.map(busy, range(6), chunksize=1))
    worker = context.Process(target=busy, args=(3,))
    worker.start()
    worker.join()
    print("exit code", worker.exitcode)


if __name__ == "__main__":
    main()
