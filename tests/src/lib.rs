//! End-to-end tests, as a user would run them, and the workloads that they run.
//!
//! A test starts a program under `rsys-sample` with [`Run`], looks at how it ended in the [`Outcome`], and asks
//! questions of the [`Trace`]s that it left behind. The answers come from Perfetto's own trace processor.
//!
//! ```no_run
//! use rsys_tests::{Run, TestResult, workload};
//!
//! fn hot_spots_are_found() -> TestResult {
//!     let outcome = Run::new().freq(1000).command(workload("rate").args(["--threads", "4"])).run()?;
//!     let trace = outcome.expect_success().trace()?;
//!     trace.assert_clean();
//!     assert!(trace.shares_of("worker")?.self_share("burn") > 0.9);
//!     Ok(())
//! }
//! ```

mod answers;
mod asked;
mod bounds;
mod invocation;
mod judge;
mod machines;
mod needs;
mod older;
mod outcome;
mod packets;
mod page;
mod paths;
mod procs;
mod pty;
mod pythons;
mod rows;
mod run;
mod samples;
mod schema;
mod screenshot;
mod shares;
pub mod simgpu;
pub mod slurm;
pub mod steps;
mod summary;
mod timeline;
mod trace;
mod workload;

pub use answers::{answer, answer_with, judged};
pub use asked::Asked;
pub use bounds::{assert_share, assert_total_share, kernel_ticks_per_second, share_bound};
pub use invocation::Invocation;
pub use judge::{Judge, web_dir};
pub use machines::Machine;
pub use needs::{is_root, missing_python_module, missing_tool, must_not_skip};
pub use older::OldSystem;
pub use outcome::Outcome;
pub use packets::{PacketScan, scan_packets};
pub use page::{judged_page, missing_browser};
pub use paths::{Scratch, avail, judge_dir, report, sampler, target_dir, workspace_dir};
pub use procs::{alive, children_of, descendants, signal, wait_until};
pub use pty::Terminal;
pub use pythons::{Interpreter, pythons, unpacked};
pub use rows::{Cell, Row, Rows};
pub use run::{Run, Running, run_plain};
pub use samples::{Frame, Sample, Samples, THREAD_ROOTS};
pub use schema::missing_schema;
pub use screenshot::{View, screenshot, view};
pub use shares::Shares;
pub use summary::Summary;
pub use timeline::{Slice, Timeline};
pub use trace::{LINKED, Metadata, Trace, key};
pub use workload::{Workload, language_source, python, script, workload};

/// What a test function returns.
pub type TestResult = anyhow::Result<()>;

/// A module of tests for each set of ROCm's runtimes: functions that take a [`simgpu::Stack`], under the name of the stack.
#[macro_export]
macro_rules! on_every_stack {
    ($($test:ident;)*) => {
        $crate::on_stacks! { [debian12 Debian12, wheel54 Wheel54, debian13 Debian13, unstable Unstable, rocm7 Rocm7] { $($test)* } }
    };
}

/// [`on_every_stack`], of the stacks whose HIP has a tracer.
#[macro_export]
macro_rules! on_every_stack_with_a_tracer {
    ($($test:ident;)*) => {
        $crate::on_stacks! { [wheel54 Wheel54, debian13 Debian13, unstable Unstable, rocm7 Rocm7] { $($test)* } }
    };
}

/// See [`on_every_stack`].
#[doc(hidden)]
#[macro_export]
macro_rules! on_stacks {
    ([$($module:ident $stack:ident),*] $tests:tt) => {
        $($crate::on_stacks! { $module $stack $tests })*
    };
    ($module:ident $stack:ident { $($test:ident)* }) => {
        mod $module {
            $(#[test]
            fn $test() -> $crate::TestResult {
                super::$test($crate::simgpu::Stack::$stack)
            })*
        }
    };
}

/// Ends the test early when something that it needs is missing.
///
/// Each condition is an `Option<String>` that says what is missing. Where everything must be there (`CI` or
/// `RSYS_REQUIRE_ALL` is set), the test fails instead.
#[macro_export]
macro_rules! skip_if_missing {
    ($($missing:expr),+ $(,)?) => {
        $(if let Some(why) = $missing {
            if $crate::must_not_skip() {
                panic!("cannot be skipped here: {why}");
            }
            println!("skipped: {why}");
            return Ok(());
        })+
    };
}
