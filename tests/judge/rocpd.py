# Asks a database of rocprofiler-sdk by its views, as the tools of that format do.
import json
import sqlite3
import sys

database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
database.row_factory = sqlite3.Row
assert [tuple(row) for row in database.execute("pragma integrity_check")] == [("ok",)]
# What a row refers to is there.
assert database.execute("pragma foreign_key_check").fetchall() == []


def rows(sql):
    return [dict(row) for row in database.execute(sql)]


metadata = {row["tag"]: row["value"] for row in rows("select tag, value from rocpd_metadata")}
tables = [row["name"] for row in rows("select name from sqlite_master where type = 'table' and name like 'rocpd_%'")]
assert all(table.endswith(metadata["uuid"]) for table in tables), tables
assert metadata["uuid"] == "_" + metadata["guid"].replace("-", "_")
views = [row["name"] for row in rows("select name from sqlite_master where type = 'view'")]
assert {table.removesuffix(metadata["uuid"]) for table in tables} < set(views)
for table in tables[1:]:
    if table.removesuffix(metadata["uuid"]) != "rocpd_metadata":
        assert rows(f"select count(*) as n from {table} where guid <> '{metadata['guid']}'")[0]["n"] == 0, table
# Each has columns that are there.
counts = {view: rows(f"select count(*) as n from (select * from {view})")[0]["n"] for view in views}
for view in ["kernels", "memory_copies", "regions", "samples", "regions_and_samples", "memory_allocations", "processes", "threads",
             "kernel_symbols", "code_objects", "pmc_info", "events_args", "region_args"]:
    assert counts[view] > 0, (view, counts)
assert counts["kernels"] == counts["rocpd_kernel_dispatch"] and counts["memory_copies"] == counts["rocpd_memory_copy"]
assert counts["regions"] == counts["rocpd_region"]

RANK = "(select json_extract(extdata, '$.rank') from rocpd_info_process where pid = {0}.pid)"
rank = RANK.format
print(json.dumps({
    "metadata": metadata,
    "kernels": rows(f"select {rank('k')} as rank, pid, agent_type_index as device, name, count(*) as count, sum(duration) as ns, min(start) as first,"
                    " max(end) as last from kernels k group by 1, 2, 3, 4 order by 1, 3, 4"),
    "grids": rows("select rtrim(grid_x || char(215) || grid_y || char(215) || grid_z, '') as grid, count(*) as count from kernels where grid_x > 0"
                  " group by 1 order by 1"),
    "copies": rows(f"select {rank('m')} as rank, sum(size) as bytes, sum(duration) as ns, min(start) as first, count(*) as count"
                   " from memory_copies m group by 1 order by 1"),
    # Operations whose call is there.
    "linked": rows(f"""select {rank('o')} as rank, count(*) as count from (select pid, corr_id from kernels union all select pid, corr_id from memory_copies) o
                   where (o.pid, o.corr_id) in (select pid, corr_id from regions where category = 'HIP_RUNTIME_API' and corr_id <> 0)
                   group by 1 order by 1"""),
    "calls": rows(f"select {rank('r')} as rank, tid as thread, name, count(*) as count, sum(duration) as ns, min(start) as first from regions r"
                  " where category = 'HIP_RUNTIME_API' group by 1, 2, 3 order by 1, 2, 3"),
    "allocations": rows(f"select {rank('a')} as rank, sum(size) as bytes, count(*) as count from memory_allocations a group by 1 order by 1"),
    "waits": rows(f"select {rank('r')} as rank, tid as thread, name, count(*) as count, sum(duration) as ns from regions r"
                  " where category in ('WAIT', 'OFF_PROCESSOR') group by 1, 2, 3 order by 1, 2, 3"),
    "samples": rows(f"""select {rank('s')} as rank, tid as thread, count(*) as count, sum(json_extract(r.extdata, '$.weight')) as ns, min(s.timestamp) as first
                    from samples s join rocpd_sample r on r.id = s.id where category = 'CPU_SAMPLE' group by 1, 2 order by 1, 2"""),
    "innermost": rows("""select json_extract(s.call_stack, '$[0].function') as function, sum(json_extract(r.extdata, '$.weight')) as ns
                      from samples s join rocpd_sample r on r.id = s.id where category = 'CPU_SAMPLE' and s.call_stack <> '{}' group by 1 order by 1"""),
    "counters": rows("select i.name, count(*) as count, min(s.timestamp) as first, max(v.value) as value from rocpd_pmc_event v"
                     " join rocpd_info_pmc i on i.id = v.pmc_id join rocpd_sample s on s.event_id = v.event_id group by 1 order by 1"),
}))
