"""Runs code in other interpreters of the same process: on the thread that made them, on another thread, one in the other, and in a pool of threads.

Prints a line `case=NAME` for each that this Python can. The outer function of each case is `outer_NAME`, the inner one `inner_NAME`."""
import sys
import threading

INNER = """
import time
def inner_{0}():
    end = time.thread_time() + 0.3
    while time.thread_time() < end: sum(range(1000))
def middle_{0}():
    inner_{0}()
    time.sleep(0.3)
middle_{0}()
"""

try:
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
        run = interpreters.exec
    else:
        import _xxsubinterpreters as interpreters
        run = interpreters.run_string
except ImportError:
    sys.exit()


def check(failure):
    if failure is not None:
        raise RuntimeError(failure)


def outer_here():
    interpreter = interpreters.create()
    check(run(interpreter, INNER.format("here")))
    interpreters.destroy(interpreter)


def outer_thread():
    def work():
        check(run(interpreter, INNER.format("thread")))

    interpreter = interpreters.create()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    interpreters.destroy(interpreter)


def outer_nested():
    code = """
import {1} as interpreters
def between_nested():
    interpreter = interpreters.create()
    interpreters.{2}(interpreter, {0!r})
    interpreters.destroy(interpreter)
between_nested()
""".format(INNER.format("nested"), interpreters.__name__, run.__name__)
    interpreter = interpreters.create()
    check(run(interpreter, code))
    interpreters.destroy(interpreter)


def outer_pool():
    from concurrent.futures import InterpreterPoolExecutor

    with InterpreterPoolExecutor(2) as pool:
        for future in [pool.submit(exec, INNER.format("pool"), {}) for _ in range(2)]:
            future.result()


def main():
    outer_here()
    print("case=here")
    # Until 3.10 nothing says on which thread a state is that another thread made.
    if sys.version_info >= (3, 11):
        outer_thread()
        print("case=thread")
    outer_nested()
    print("case=nested")
    if sys.version_info >= (3, 14):
        outer_pool()
        print("case=pool")


main()
