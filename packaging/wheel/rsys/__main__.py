"""`python -m rsys [sample|report|avail] …`: a program of this package; rsys-sample if none is named."""

import sys

from rsys import _programs

if __name__ == "__main__":
    words = sys.argv[1:]
    if words and words[0] in ("sample", "report", "avail"):
        _programs.run("rsys-" + words[0], words[1:])
    _programs.run("rsys-sample", words)
