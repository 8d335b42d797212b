# Profiles cells in a real kernel of Jupyter: python3 profiled_cells.py FOLDER
#
# Writes FOLDER/notebook.ipynb with all outputs and FOLDER/notebook.html, and prints as JSON what each cell showed.
import json
import os
import sys
from pathlib import Path

folder = Path(sys.argv[1])
# Traces go where the kernel runs.
os.chdir(folder)
for name in ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"]:
    os.environ[name] = str(folder / "jupyter")

import nbconvert

# What pip puts beside packages that have a folder of their own: the looks of pages.
os.environ["JUPYTER_PATH"] = str(Path(nbconvert.__file__).parents[1] / "share/jupyter")
import nbformat
from nbclient import NotebookClient

CELLS = [
    ("markdown", "# Where does the time of a cell go?"),
    ("code", "%load_ext rsys"),
    (
        "code",
        """%%rsys
import math, time

def distances(count):
    return [math.hypot(x, y) for x in range(count) for y in range(100)]

def total(seconds):
    end = time.thread_time() + seconds
    found = 0.0
    while time.thread_time() < end:
        found += sum(distances(100))
    return found

print("computing")
total(1.5) > 0""",
    ),
    ("code", "rsys_dir = __import__('rsys').last().dir\nprint(rsys_dir)"),
    (
        "code",
        """import rsys
run = rsys.last().read()
run.query(\"\"\"select function, count(*) as samples, sum(weight) / 1e9 as seconds from samples
             where basis = 'cpu' group by function order by seconds desc limit 3\"\"\")""",
    ),
    ("code", "with rsys.profile('-o awaited') as run:\n    await __import__('asyncio').sleep(0)\n    total(0.4)\nrun"),
    ("code", "%%rsys --nonsense\nprint('never')"),
    ("code", "%%rsys -o failed --realtime\ntotal(0.3)\nraise ValueError('as it is')"),
    ("code", "print('goes on')"),
]
made = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
notebook = nbformat.v4.new_notebook(cells=[made[kind](source) for kind, source in CELLS])
client = NotebookClient(notebook, timeout=300, kernel_name="python3", allow_errors=True)
client.execute()
nbformat.write(notebook, folder / "notebook.ipynb")
page, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
(folder / "notebook.html").write_text(page)


def shown(output):
    kind = output["output_type"]
    if kind == "stream":
        return {"text": output["text"]}
    if kind == "error":
        return {"error": output["ename"], "text": "\n".join(output["traceback"]), "value": output["evalue"]}
    return {"text": output["data"].get("text/plain", ""), "html": output["data"].get("text/html", "")}


print(json.dumps([[shown(output) for output in cell.get("outputs", [])] for cell in notebook.cells]))
