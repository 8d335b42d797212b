"""Python that starts other programs: run, a shell, a pipe, an empty environment."""

import subprocess
import sys

BURN = "import time\nend = time.process_time() + 0.15\nwhile time.process_time() < end: pass\nprint('child', flush=True)"

print(subprocess.run([sys.executable, "-c", BURN], capture_output=True, text=True, check=True).stdout.strip())
print(subprocess.run("echo from the shell; exit 3", shell=True, check=False).returncode)
first = subprocess.Popen(["printf", "b\\na\\n"], stdout=subprocess.PIPE)
print(subprocess.run(["sort"], stdin=first.stdout, capture_output=True, text=True, check=True).stdout.split())
print(first.wait())
print(subprocess.run(["/bin/echo", "nothing inherited"], env={}, capture_output=True, text=True, check=True).stdout.strip())
