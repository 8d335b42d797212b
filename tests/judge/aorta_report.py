# What AORTA's package reads of a folder with lines of its trainer: its report, and the sums of its loader. python3 aorta_report.py FOLDER
import json
import sys
from pathlib import Path

from aorta.report.analysis.kernel_correlator import KernelEventCorrelator
from aorta.report.cli import cli

folder = Path(sys.argv[1])
report = folder.with_name(folder.name + ".report")
cli(["--quiet", "generate", "kernel-trace", "-i", str(folder), "-o", str(report)], standalone_mode=False)
summary = json.loads((report / "kernel_trace_summary.json").read_text())["summary"]
sums = {}
for record in KernelEventCorrelator().load_metrics_glob(folder):
    of_rank = sums.setdefault(record.rank, {})
    for key, value in [*record.per_stream_ms.items(), *record.overlap_ms.items()]:
        of_rank[key] = of_rank.get(key, 0) + value
print(json.dumps({"summary": summary, "sums": sums, "files": sorted(path.name for path in report.iterdir())}))
