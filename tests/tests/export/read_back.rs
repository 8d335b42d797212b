//! What is written for others is read back as it was.

use anyhow::{Context, ensure};
use rsys_tests::{Scratch, TestResult, skip_if_missing};

use super::{STACK, export, job, rows, same};

#[test]
fn json_of_rocprofv3_is_read_back() -> TestResult {
    skip_if_missing!(STACK.missing());
    let scratch = Scratch::new("export-rocprofv3-back")?;
    let [first, second] = job()?;
    let both = [first.as_path(), second.as_path()];
    let file = scratch.path().join("out_results.json");
    export(&both, "rocprofv3-json", &file, &[])?;
    for sql in [
        "select rank, name, start_ns, duration_ns, device, call, call_start_ns, case when call = 'hipLaunchKernel' then grid end as grid
         from operations where kind in ('kernel', 'fill') order by start_ns, name, device, rank",
        "select rank, name, runtime, start_ns, duration_ns, thread from calls order by start_ns, thread, name",
        "select rank, process, host from processes order by rank",
    ] {
        let (expected, found) = (rows(&both, sql)?, rows(&[&file], sql)?);
        ensure!(!expected.is_empty(), "{sql}");
        same(&expected, &found).context(sql)?;
    }
    Ok(())
}
