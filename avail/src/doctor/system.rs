//! The kernel, its clock, and what this process may do: ptrace, limits, filters.

use rsys_machine::roots::Roots;
use rsys_wire::program::{AGENT_DATA_BYTES, AGENT_MEMORY_BYTES};

use super::asked::Asked;
use super::finding::{Finding, Level};

/// All of them.
pub fn findings(roots: &Roots, asked: &Asked) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(kernel(roots));
    found.extend(clock_source(roots));
    found.extend(ptrace(roots, asked));
    found.extend(seccomp(roots));
    if let Some(limits) = roots.text("proc/self/limits") {
        found.extend(memory(&limits));
        found.extend(pending_signals(&limits));
        found.extend(descriptors(&limits));
        found.extend(locked_memory(roots, &limits, asked));
    }
    found
}

/// The two first numbers of a kernel's version: 6 and 12 of `6.12.3-amd64`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|sign: char| !sign.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn kernel(roots: &Roots) -> Option<Finding> {
    let text = roots.text("proc/sys/kernel/osrelease")?;
    let found = format!("Linux {text}");
    Some(match version(&text)? {
        (0..=3, _) | (4, 0..=2) => Finding::at(Level::Warning, "kernel", found)
            .means("before Linux 4.3 there are no records of context switches")
            .mend("a newer kernel"),
        (0..=4, _) | (5, 0..=12) => Finding::at(Level::Note, "kernel", found)
            .means("events of the GPU driver are recorded from Linux 5.13 on, engines of each process from 5.19 on"),
        (5, _) | (6, 0..=11) => Finding::ok("kernel", found)
            .means("samples above the kernel's tick come as signals; from Linux 6.12 on they cost a quarter less"),
        _ => Finding::ok("kernel", found),
    })
}

fn clock_source(roots: &Roots) -> Option<Finding> {
    const NAME: &str = "clock source";
    let folder = "sys/devices/system/clocksource/clocksource0";
    let current = roots.text(&format!("{folder}/current_clocksource"))?;
    // Those that a program reads without asking the kernel (arch/x86/entry/vdso).
    let is_fast = ["tsc", "kvm-clock", "hyperv", "arch_sys_counter"]
        .iter()
        .any(|fast| current.starts_with(fast));
    if is_fast {
        return Some(Finding::ok(NAME, current).means("a time is read in some 20 ns"));
    }
    let available = roots.text(&format!("{folder}/available_clocksource"));
    let has_tsc = available.is_some_and(|all| all.split(' ').any(|name| name == "tsc"));
    let found = Finding::at(Level::Warning, NAME, current)
        .means("each time that is read, by every sample and call that is recorded, is a system call of about a microsecond");
    Some(found.mend(if has_tsc {
        format!("echo tsc | sudo tee /{folder}/current_clocksource")
    } else {
        "start the kernel with tsc=reliable, if the processor's counter is: dmesg | grep -i tsc"
            .to_owned()
    }))
}

/// A capability of this process, by its number in include/uapi/linux/capability.h.
pub fn has_capability(roots: &Roots, number: u32) -> bool {
    let set = status(roots, "CapEff").and_then(|text| u64::from_str_radix(&text, 16).ok());
    set.is_some_and(|set| set >> number & 1 == 1)
}

/// CAP_SYS_PTRACE.
pub const PTRACE: u32 = 19;

/// A field of `/proc/self/status`.
fn status(roots: &Roots, name: &str) -> Option<String> {
    let text = roots.text("proc/self/status")?;
    let mut values = text
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    values.next().map(|value| value.trim().to_owned())
}

/// Yama's level; 0 where there is no Yama.
pub fn ptrace_scope(roots: &Roots) -> u32 {
    let text = roots.text("proc/sys/kernel/yama/ptrace_scope");
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn ptrace(roots: &Roots, asked: &Asked) -> Option<Finding> {
    const NAME: &str = "ptrace";
    if !roots.path("proc/sys/kernel").is_dir() {
        return None;
    }
    let scope = ptrace_scope(roots);
    let found = format!("ptrace_scope is {scope}");
    let may_all = has_capability(roots, PTRACE);
    Some(match scope {
        0 | 1 => Finding::ok(NAME, found).means(if scope == 1 && !may_all {
            "waits (--realtime) of all processes that the command starts are seen, but of daemons that leave its tree"
        } else {
            "waits (--realtime) of all processes that the command starts are seen"
        }),
        2 if may_all => Finding::ok(NAME, found).means("this process has CAP_SYS_PTRACE"),
        _ => Finding::missing(NAME, &asked.waits, Level::Note, found)
            .means("what threads wait for (--realtime) cannot be seen: their memory may not be read")
            .mend(if scope == 2 {
                "sudo sysctl kernel.yama.ptrace_scope=1"
            } else {
                "kernel.yama.ptrace_scope=1 in /etc/sysctl.d and a restart: 3 cannot be taken back"
            }),
    })
}

fn seccomp(roots: &Roots) -> Option<Finding> {
    const NAME: &str = "seccomp";
    match status(roots, "Seccomp")?.as_str() {
        "2" => Some(
            Finding::at(
                Level::Note,
                NAME,
                "a filter is on this process, as in containers",
            )
            .means("what it forbids of perf events stands at the lines about perf"),
        ),
        _ => Some(Finding::ok(NAME, "no filter")),
    }
}

/// The soft limit on a line of `/proc/self/limits`; the largest number where there is none.
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    let mut lines = limits.lines().filter_map(|line| line.strip_prefix(name));
    let word = lines.next()?.split_whitespace().next()?;
    Some(word.parse().unwrap_or(u64::MAX))
}

fn memory(limits: &str) -> Option<Finding> {
    let is_below = |name, bytes| soft_limit(limits, name).is_some_and(|limit| limit < bytes);
    let is_little = is_below("Max data size", AGENT_DATA_BYTES)
        || is_below("Max address space", AGENT_MEMORY_BYTES);
    is_little.then(|| {
        Finding::at(Level::Problem, "memory", "too little may be used")
            .means("programs run, but are not sampled")
            .mend("ulimit -d unlimited -v unlimited")
    })
}

fn pending_signals(limits: &str) -> Option<Finding> {
    const NAME: &str = "pending signals";
    /// As the agent has it (`agent/src/clocks/clock.rs`).
    const FEW: u64 = 256;
    let limit = soft_limit(limits, "Max pending signals")?;
    if limit >= FEW {
        return Some(Finding::ok(NAME, limit_text(limit)));
    }
    Some(
        Finding::at(Level::Warning, NAME, limit_text(limit))
            .means(format!(
                "the kernel counts the timer of each thread as one: below {FEW} perf alone samples, without time in the kernel, \
                 and without perf events threads beyond the limit are not sampled"
            ))
            .mend("ulimit -i unlimited"),
    )
}

fn descriptors(limits: &str) -> Option<Finding> {
    const NAME: &str = "open files";
    /// Threads of programs that are not large.
    const FEW_THREADS: u64 = 256;
    let limit = soft_limit(limits, "Max open files")?;
    let threads = limit / 4;
    let found = limit_text(limit);
    if threads >= FEW_THREADS {
        return Some(Finding::ok(NAME, found));
    }
    Some(
        Finding::at(Level::Note, NAME, found)
            .means(format!(
                "perf events take one for each thread, a quarter of the limit at most: {threads} threads have them, the others are \
                 sampled at the kernel's tick"
            ))
            .mend("ulimit -n 4096"),
    )
}

/// CAP_IPC_LOCK.
const LOCK: u32 = 14;

/// Memory for the kernel's records of context switches.
fn locked_memory(roots: &Roots, limits: &str, asked: &Asked) -> Option<Finding> {
    const NAME: &str = "locked memory";
    /// A ring for each processor, with its head (`sampler/src/offcpu/rings.rs`).
    const RING_BYTES: u64 = 260 << 10;
    let text = roots.text("proc/sys/kernel/perf_event_mlock_kb")?;
    let of_perf = text.parse::<u64>().ok()?.saturating_mul(1 << 10);
    let limit = soft_limit(limits, "Max locked memory")?;
    let processors = roots.text("proc/cpuinfo").unwrap_or_default();
    let processors = processors
        .lines()
        .filter(|line| line.starts_with("processor"));
    let needed = RING_BYTES.saturating_mul(processors.count().max(1) as u64);
    let found = format!("perf_event_mlock_kb is {text} for each processor");
    if of_perf >= RING_BYTES || limit >= needed || has_capability(roots, LOCK) {
        return Some(Finding::ok(NAME, found));
    }
    let level = if asked.switches_if_permitted {
        Level::Warning
    } else {
        Level::Note
    };
    Some(
        Finding::missing(NAME, &asked.switches, level, found)
            .means("the kernel's records of context switches (--off-cpu, exact waits) find no room")
            .mend("sudo sysctl kernel.perf_event_mlock_kb=516"),
    )
}

fn limit_text(limit: u64) -> String {
    match limit {
        u64::MAX => "unlimited".to_owned(),
        limit => format!("at most {limit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_limits_are_read() {
        assert_eq!(version("6.12.3-amd64"), Some((6, 12)));
        assert_eq!(version("4.18.0-553.el8.x86_64"), Some((4, 18)));
        assert_eq!(version("unknown"), None);
        let limits = "Limit Soft Hard Units\nMax open files            1024                 1048576  files\n\
                      Max pending signals       unlimited            unlimited  signals";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1024));
        assert_eq!(soft_limit(limits, "Max pending signals"), Some(u64::MAX));
        assert_eq!(soft_limit(limits, "Max nothing"), None);
        assert!(descriptors(limits).is_some_and(|found| found.level == Level::Ok));
    }
}
