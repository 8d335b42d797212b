//! Programs that use the HSA runtime without HIP, by other ways than our own: ROCm's OpenCL, and offloaded regions of OpenMP by LLVM's plug-in. All kernels and
//! copies are recorded, with either of the sources that `auto` may take and while calls of the runtime are recorded too.

use std::collections::BTreeMap;

use rsys_tests::simgpu::{Machine, Stack, opencl_program, openmp_program, ops};
use rsys_tests::{Invocation, Run, TestResult, skip_if_missing};

/// Runs a program and judges each kernel and copy of it by what the GPU did. `kernels` is what it says that it launched.
fn judge(stack: Stack, program: &Invocation, name: &str, kernels: usize) -> TestResult {
    for options in [&["-I", "rocm"][..], &["-I", "rocm", "hsa", "ompt"]] {
        let machine = Machine::new(stack)?;
        let outcome = Run::new()
            .options(options)
            .options(["--min-samples", "1"])
            .command(machine.run(program.clone()))
            .run()?;
        let trace = outcome.expect_success().trace_of(name)?;
        trace.assert_clean();
        assert!(
            trace
                .metadata()?
                .text("gpu source")?
                .starts_with("HSA queues")
        );
        let truth = machine.truth()?;
        let mut told: BTreeMap<(String, u64, u64), usize> = BTreeMap::new();
        // Blits of the runtime's own come and go with its copies, outside of the program's queues.
        for kernel in truth
            .dispatches()
            .filter(|kernel| !kernel.kernel.starts_with("rocr_"))
        {
            *told
                .entry((kernel.kernel.clone(), kernel.start_ns, kernel.end_ns))
                .or_default() += 1;
        }
        assert_eq!(told.values().sum::<usize>(), kernels);
        for kernel in ops(&trace, "kernel")? {
            let found = told.iter_mut().find(|((name, start_ns, end_ns), count)| {
                **count > 0 && *name == kernel.name && kernel.is_at(*start_ns, *end_ns)
            });
            let (_, count) = found.unwrap_or_else(|| panic!("no such kernel: {kernel:?}"));
            *count -= 1;
        }
        assert_eq!(told.values().sum::<usize>(), 0, "{options:?}: {told:?}");
        assert_eq!(
            ops(&trace, "copy")?.len(),
            truth.copies().count(),
            "{options:?}"
        );
    }
    Ok(())
}

#[test]
fn kernels_and_copies_of_opencl_are_recorded() -> TestResult {
    skip_if_missing!(Stack::Unstable.missing_beside("opencl"));
    judge(
        Stack::Unstable,
        &opencl_program("opencl_check")?,
        "opencl_check",
        50,
    )
}

#[test]
fn offloaded_regions_of_openmp_are_recorded() -> TestResult {
    skip_if_missing!(Stack::Debian13.missing_beside("openmp"));
    judge(
        Stack::Debian13,
        &openmp_program("openmp_target")?,
        "openmp_target",
        40,
    )
}
