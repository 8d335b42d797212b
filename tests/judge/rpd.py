# Asks a database of rocmProfileData as its scripts do: every view, the busiest names and kernels, how busy GPUs were.
import json
import sqlite3
import sys

database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
assert database.execute("pragma integrity_check").fetchall() == [("ok",)]


def rows(sql):
    return database.execute(sql).fetchall()


def number(sql):
    return rows(sql)[0][0]


views = [name for (name,) in rows("select name from sqlite_master where type = 'view'")]
tables = [name for (name,) in rows("select name from sqlite_master where type = 'table' and name like 'rocpd_%'")]
# What a row refers to is there.
for table, column, other in [
    ("rocpd_api", "apiName_id", "rocpd_string"), ("rocpd_api", "domain_id", "rocpd_string"), ("rocpd_api", "category_id", "rocpd_string"),
    ("rocpd_api", "args_id", "rocpd_ustring"), ("rocpd_op", "description_id", "rocpd_string"), ("rocpd_op", "opType_id", "rocpd_string"),
    ("rocpd_api_ops", "api_id", "rocpd_api"), ("rocpd_api_ops", "op_id", "rocpd_op"), ("rocpd_kernelapi", "api_ptr_id", "rocpd_api"),
    ("rocpd_copyapi", "api_ptr_id", "rocpd_api"), ("rocpd_stackframe", "api_ptr_id", "rocpd_api"), ("rocpd_stackframe", "name_id", "rocpd_string"),
]:
    missing = number(f"select count(*) from {table} where {column} not in (select id from {other})")
    assert missing == 0, f"{table}.{column}: {missing}"
assert number("select string from rocpd_string where id = 1") == ""
print(json.dumps({
    "views": {view: number(f"select count(*) from {view}") for view in views},
    "tables": {table: number(f"select count(*) from {table}") for table in tables},
    "metadata": dict(rows("select tag, value from rocpd_metadata")),
    # `top` rounds to microseconds: the same in nanoseconds.
    "top": rows("select Name, TotalCalls from top order by Name"),
    "ops": rows("select case description when '' then opType else description end, count(*), sum(end - start) from op group by 1 order by 1"),
    "ktop": rows("select kernelName, count(*), sum(duration) from kernel group by kernelName order by kernelName"),
    "busy": rows("select gpuId, GpuTime, WallTime from busy order by gpuId"),
    "api": rows("select domain, count(*), sum(end - start) from api group by domain order by domain"),
}))
