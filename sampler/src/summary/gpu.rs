//! Programs that used a GPU while nothing of it was recorded.

use rsys_wire::layout::Counter;

use crate::emit::outcome::ProcessSummary;

/// The line that says how to see what GPUs do, for programs that set up a GPU runtime while no
/// backend was on.
#[must_use]
pub fn gpu_hint(processes: &[ProcessSummary]) -> Option<String> {
    let mut users = processes
        .iter()
        .filter(|process| process.counts.counter(Counter::GpuNotAskedFor) > 0);
    let first = users.next()?;
    let who = match users.count() {
        0 => format!("pid {} ({}) used a GPU", first.pid, first.name),
        more => format!(
            "pid {} ({}) and {more} more used GPUs",
            first.pid, first.name
        ),
    };
    Some(format!(
        "{who}; -I rocm records its kernels, copies and HIP calls as well"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::process;
    use super::*;
    use crate::emit::account::COUNTER_NAMES;

    #[test]
    fn there_is_one_line_for_all_that_used_gpus() {
        let place = COUNTER_NAMES
            .iter()
            .position(|(counter, _)| *counter == Counter::GpuNotAskedFor)
            .expect("it has a name");
        let mut user = process();
        user.counts.counters[place] = 1;
        let hint = |processes: &[ProcessSummary]| gpu_hint(processes).unwrap_or_default();
        assert_eq!(gpu_hint(&[process()]), None);
        assert!(hint(&[process(), user.clone()]).starts_with("pid 7 (app) used a GPU; -I rocm"));
        assert!(hint(&[user.clone(), user]).starts_with("pid 7 (app) and 1 more used GPUs;"));
    }
}
