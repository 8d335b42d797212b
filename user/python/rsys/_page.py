"""What a notebook shows of a profile, as HTML: the closing table, and pictures of rsys-report."""

import base64
import glob
import html
import itertools
import os
import tempfile

from ._run import Error, report_lines

# IPython calls the code of a cell from here: whatever stands above is its own machinery.
# Before Python 3.11 the class of a method is not known.
_CALLERS_OF_CELLS = ("InteractiveShell.run_code (interactiveshell.py)", "run_code (interactiveshell.py)")
# Pictures of `rsys-report html --png` that are shown, in this order, as far as the traces have something for them.
_PICTURES = (
    ("gpus-over-time", "GPUs over time"),
    ("flame-cpu", "Flame graph of CPU time: what the cell called, as wide as its time"),
    ("flame-gpu", "Flame graph of GPU time"),
    ("sensors", "Sensors of GPUs over time"),
)
# Notebooks may be dark, pictures are light; and some show preformatted text in letters of any width.
_TABLE_STYLE = "font-family:monospace;font-size:13px;line-height:1.3;background:none;color:inherit"
_STYLE = "background:#fff;color:#1b2026;padding:8px;overflow-x:auto"


def page(run):
    """What is shown of a profile: the closing table, and pictures."""
    # Behind the table are commands for a terminal; here is a link.
    lines = itertools.takewhile(lambda line: not line.startswith("next: "), run.summary().splitlines())
    parts = ['<pre style="%s">%s</pre>' % (_TABLE_STYLE, html.escape("\n".join(lines)))]
    try:
        parts += _pictures(run.dir)
    except Error as error:
        parts.append("<p>%s</p>" % html.escape(str(error)))
    return '<div style="%s">%s</div>' % (_STYLE, "".join(parts))


def _pictures(folder):
    file = os.path.join(folder, "report.html")
    with tempfile.TemporaryDirectory() as pictures:
        words = ["html", "--force", "-o", file, "--png", pictures, "--label", os.path.basename(folder)]
        words += [word for function in _CALLERS_OF_CELLS for word in ("--below", function)]
        for _ in report_lines(words + ["--", folder]):
            pass
        for name, title in _PICTURES:
            for path in sorted(glob.glob(os.path.join(pictures, name + "*.png"))):
                with open(path, "rb") as picture:
                    content = base64.b64encode(picture.read()).decode()
                yield '<img src="data:image/png;base64,%s" alt="%s" style="width:900px;max-width:none">' % (content, title)
    link = html.escape(os.path.relpath(file))
    yield '<p><a href="%s" target="_blank">The page with all answers</a> (%s); rsys.last().read() has its records as tables.</p>' % (link, link)
