"""A part of a program is recorded by rsys.profile(): python_profile.py [attach FOLDER | refused FOLDER | inside]

`before` and `after` use as much CPU time as `part`, and must not be in the trace. With `attach` it is recorded three times: by `with`, by a decorator, and by
one within another; each folder is printed. With `refused` another rsys-sample records it already. With `inside` the program runs under rsys-sample.
"""
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../user/python"))
import rsys

SECONDS = 0.4


def burn():
    end = time.thread_time() + SECONDS
    while time.thread_time() < end:
        sum(range(1000))


def before():
    burn()


def part():
    burn()


def after():
    burn()


def attach(folder):
    before()
    with rsys.profile(["-o", folder]) as run:
        part()
    after()
    print(f"with={run.dir}")
    assert rsys.last() is run and run.summary() == str(run) and "burn" in run.summary(), run.summary()

    @rsys.profile(f"-o '{folder}'")
    def decorated():
        # A part of what is recorded already, of another thread too.
        with rsys.profile() as inner:
            thread = threading.Thread(target=rsys.profile()(part))
            thread.start()
            thread.join()
        return inner

    inner = decorated()
    after()
    assert decorated.__name__ == "decorated" and inner.dir == rsys.last().dir != run.dir
    print(f"decorated={inner.dir}")
    # Only what this program does is recorded: not what its children go on with.
    with rsys.profile(["-o", folder]) as parent:
        child = os.fork()
        if child == 0:
            parent.__exit__()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        part()
    print(f"forked={parent.dir}")


def inside():
    rsys.pause()
    before()
    with rsys.profile() as run:
        assert rsys.is_recording()
        part()
    assert not rsys.is_recording()
    after()
    rsys.resume()
    with rsys.profile():
        pass
    assert rsys.is_recording()
    rsys.pause()
    assert "rsys-sample" in run.summary()
    try:
        run.dir
    except rsys.Error as error:
        print(f"refused={error}")


def refused(folder):
    words = ["rsys-sample", "-p", str(os.getpid()), "-o", folder]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as other:
        assert any("attached to pid" in line for line in other.stderr)
        try:
            with rsys.profile(["-o", folder]):
                print("recorded=twice")
        except rsys.Error as error:
            print(f"refused={error}")
        assert rsys.last() is None
        other.terminate()
    # Once it is gone there is nothing in the way.
    with rsys.profile(["-o", folder]) as run:
        part()
    print(f"with={run.dir}")


{"attach": attach, "refused": refused, "inside": inside}[sys.argv[1]](*sys.argv[2:])
