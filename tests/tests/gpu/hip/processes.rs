//! Children and libraries that come late.

use super::*;

pub(super) fn a_fork_goes_on_without_gpus(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let machine = machine(stack, 1)?;
    let outcome = profiled(&machine, program(stack, &["fork"])?).run()?;
    outcome.expect_success();
    let trace = biggest(&outcome)?;
    let told = Told::read(&trace)?;
    ensure!(told.named("kernel", "touch").count() == 101);
    ensure!(check_counts(&trace, &told)? == 0);
    Ok(())
}

pub(super) fn a_child_may_be_the_first_to_use_gpus(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let machine = machine(stack, 1)?;
    let outcome = profiled(&machine, program(stack, &["child"])?).run()?;
    outcome.expect_success();
    let trace = biggest(&outcome)?;
    let told = Told::read(&trace)?;
    ensure!(told.named("kernel", "touch").count() == 50);
    // From HIP itself, under the calls.
    for op in told.named("kernel", "touch") {
        ensure!(told.call(op)?.name == "hipLaunchKernel");
    }
    ensure!(check_counts(&trace, &told)? == 0);
    Ok(())
}

/// The HSA runtime was set up and shut down in the parent, HIP was not called: it works in the children.
pub(super) fn children_of_a_parent_that_counted_gpus_are_recorded(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    for (mode, count, options) in [
        ("counted", 2, &["-I", "rocm", "--launch-stacks"][..]),
        ("counted", 2, &["-I", "hsa"]),
        ("again", 1, &["-I", "rocm", "hsa"]),
    ] {
        let machine = machine(stack, 1)?;
        let outcome = Run::new()
            .options(options)
            .command(machine.run(program(stack, &[mode])?))
            .run()?;
        outcome.expect_success();
        let what = format!("{mode} {options:?}");
        let mut traces = 0;
        for trace in outcome.traces()? {
            let told = Told::read(&trace)?;
            let kernels: Vec<_> = told.named("kernel", "touch").collect();
            if kernels.is_empty() {
                continue;
            }
            traces += 1;
            ensure!(kernels.len() == 50, "{what}: {}", outcome.story());
            ensure!(check_counts(&trace, &told)? == 0);
            for op in kernels {
                ensure!(told.call(op)?.name == "hipLaunchKernel", "{what}: {op:?}");
            }
            let metadata = trace.metadata()?;
            let source = metadata.text("gpu source")?;
            ensure!(source.starts_with("HIP"), "{what}: {source}");
            // Texts and stacks of the parent are none of the child's.
            let unnamed = trace.number("select count(*) from slice where name in ('?', '')")?;
            ensure!(unnamed == 0, "{what}: {unnamed} slices have no name");
            trace.assert_clean();
        }
        ensure!(
            traces == count,
            "{what}: {traces} traces\n{}",
            outcome.story()
        );
        ensure!(!outcome.stderr.contains("fork"), "{}", outcome.story());
    }
    Ok(())
}

/// HIP does not survive a fork. Whoever calls it all the same is told that this is not recorded.
pub(super) fn a_child_of_a_parent_that_used_gpus_is_said_to_miss_calls(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let machine = machine(stack, 1)?;
    let outcome = profiled(&machine, program(stack, &["asks"])?).run()?;
    outcome.expect_success();
    let said = outcome.stderr.matches("forked after HIP was used").count();
    ensure!(said == 1, "{}", outcome.story());
    // A child that does not call HIP misses nothing.
    let outcome = profiled(&machine, program(stack, &["fork"])?).run()?;
    outcome.expect_success();
    ensure!(!outcome.stderr.contains("forked"), "{}", outcome.story());
    Ok(())
}

pub(super) fn a_runtime_that_is_loaded_late_is_found(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let library = match stack {
        Stack::Unstable => "libamdhip64.so.6",
        Stack::Rocm7 => "libamdhip64.so.7",
        _ => "libamdhip64.so.5",
    };
    let machine = machine(stack, 1)?;
    let program = library_program(Stack::Debian12, "hip_late", &[])?
        .arg(library)
        .arg(code_object("gfx90a")?);
    let outcome = profiled(&machine, program).run()?;
    outcome.expect_success();
    let trace = outcome.trace_of("hip_late")?;
    let told = Told::read(&trace)?;
    ensure!(check_single_kernels(&told, &machine.truth()?)? == 100);
    ensure!(check_counts(&trace, &told)? == 0);
    Ok(())
}
