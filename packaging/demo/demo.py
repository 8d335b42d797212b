"""What `rsys-sample --demo` does: it chooses what train.py trains on, says so, and becomes rsys-sample, which records that.

An AMD GPU is used where there is one. Otherwise one is simulated below the real HSA runtime, where that is installed or can be fetched;
else there is the processor alone.

    python3 demo.py RSYS_SAMPLE [OPTIONS]

RSYS_DEMO_DEVICE=processor, hip or simulated chooses by hand.
"""

import ctypes
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "train.py")
DRIVER = "/dev/kfd"
RUNTIME = "libhsa-runtime64.so.1"
# In Debian and Ubuntu. Newer releases lack some of them, and do not need these.
PACKAGES = ["libhsa-runtime64-1", "libhsakmt1", "libdrm-amdgpu1", "libdrm2", "libnuma1", "libelf1"]
# From the folder of rsys-sample, in an installation and in a checkout.
SIMULATORS = ["../lib/rsys/rsys-simgpu", "rsys-simgpu"]
OPTIONS = ["-f", "1000", "-o", "rsys-demo-output", "--realtime"]
# What is recorded of each device.
BACKENDS = {"processor": [], "hip": ["-I", "rocm", "rocm-smi"], "simulated": ["-I", "rocm", "hsa", "rocm-smi"]}


class NotHere(Exception):
    """Why there is no simulated GPU."""


def find_simulator(profiler):
    places = [os.path.join(os.path.dirname(profiler), place) for place in SIMULATORS]
    found = [place for place in places if os.path.isfile(place)]
    if not found:
        raise NotHere("this package has no simulated GPU; those for Debian and Fedora and the archive have one")
    return os.path.normpath(found[0])


def runtime_folder():
    """Where the HSA runtime is; empty if the loader finds it by itself."""
    try:
        ctypes.CDLL(RUNTIME)
        return ""
    except OSError:
        pass
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    tree = os.path.join(cache, "rsys", "demo-runtime")
    folders = ["/opt/rocm/lib", os.path.join(tree, "usr/lib/x86_64-linux-gnu")]
    if not any(os.path.exists(os.path.join(folder, RUNTIME)) for folder in folders):
        fetch(tree)
    return next(folder for folder in folders if os.path.exists(os.path.join(folder, RUNTIME)))


def fetch(tree):
    """Unpacks the runtime of this system's packages into a folder, which is not there. Nothing is installed, and no root is needed."""
    tools = ["apt-get", "apt-cache", "dpkg-deb"]
    if not all(shutil.which(tool) for tool in tools):
        raise NotHere("the HSA runtime is not installed, and there is no apt-get to fetch it")
    # Names of packages stand at the beginning of lines.
    listed = run(["apt-cache", "policy", *PACKAGES])
    known = [name for name in PACKAGES if f"\n{name}:\n" in "\n" + listed]
    if PACKAGES[0] not in known:
        raise NotHere(f"the HSA runtime is not installed, and apt-get does not know {PACKAGES[0]} (apt-get update may help)")
    print(f"Fetching the HSA runtime, about a megabyte of this system's packages, into {tree}; nothing is installed.", flush=True)
    os.makedirs(os.path.dirname(tree), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(tree)) as folder:
        unpacked = os.path.join(folder, "tree")
        run(["apt-get", "-qq", "-o", "APT::Sandbox::User=", "download", *known], cwd=folder)
        for package in glob.glob(os.path.join(folder, "*.deb")):
            run(["dpkg-deb", "-x", package, unpacked])
        if not os.path.exists(os.path.join(unpacked, "usr/lib/x86_64-linux-gnu", RUNTIME)):
            raise NotHere(f"{PACKAGES[0]} has no {RUNTIME}")
        os.rename(unpacked, tree)


def run(words, **options):
    """What a program prints, if it succeeds."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, **options)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise NotHere(f"{os.path.basename(words[0])}: {said[-1]}")
    return done.stdout


def simulated(profiler):
    """The words in front of rsys-sample, and its environment."""
    simulator = find_simulator(profiler)
    environment = dict(os.environ)
    folder = runtime_folder()
    if folder:
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [folder, environment.get("LD_LIBRARY_PATH")]))
    words = [simulator, "--model", "gfx90a", "--config", os.path.join(HERE, "kernels.toml"), "--"]
    # The runtime may want a newer C library than there is.
    run([*words, sys.executable, PROGRAM, "simulated", "0"], env=environment)
    return words, environment


def has_gpu():
    """Whether a GPU is there and can be used: the driver is on many desktops without ROCm."""
    if not os.path.exists(DRIVER):
        return False
    try:
        run([sys.executable, PROGRAM, "hip", "0"])
    except NotHere as why:
        print(f"The AMD GPU of this machine cannot be used: {why}.")
        return False
    return True


def choose(profiler):
    """What train.py trains on, with words and environment in front of rsys-sample."""
    chosen = os.environ.pop("RSYS_DEMO_DEVICE", None)
    if chosen not in (None, *BACKENDS):
        raise SystemExit(f"demo: RSYS_DEMO_DEVICE is one of {', '.join(BACKENDS)}, not {chosen}")
    if chosen == "processor":
        return "processor", [], os.environ
    if chosen == "hip" or chosen is None and has_gpu():
        print("The program trains on an AMD GPU.")
        return "hip", [], os.environ
    try:
        words, environment = simulated(profiler)
    except NotHere as why:
        if chosen:
            raise SystemExit(f"demo: no GPU can be simulated: {why}") from why
        print(f"There is no AMD GPU to use, and none can be simulated: {why}.\nThe program trains on the processor.")
        return "processor", [], os.environ
    print("The GPU is SIMULATED: the HSA runtime is the real one, but kernels do nothing and take the time that they are told to.")
    return "simulated", words, environment


def main():
    profiler, options = sys.argv[1], sys.argv[2:]
    print("A program of Python that trains nothing is recorded for some seconds: two threads load batches, the main thread trains on them and saves now and then.")
    kind, words, environment = choose(profiler)
    print("In its trace look at the threads `loader`: C of zlib below Python; at the tracks `waiting`: who waits for what; and at the GPU, if there is one: it")
    print("waits for batches, and every 25 steps for a checkpoint, which the table and `rsys-report gaps` name by line.\n", flush=True)
    command = [*words, profiler, *OPTIONS, *BACKENDS[kind], *options, "--", sys.executable, PROGRAM, kind]
    os.execve(command[0], command, environment)


main()
