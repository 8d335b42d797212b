//! Regions, the threads in them, work-sharing and waits at barriers.

use std::ffi::{c_int, c_uint, c_void};

use rsys_wire::event::{Key, Value};

use super::abi::{self, CodeAddress, Data};
use super::chain::callbacks;
use super::data::{self, IMPLICIT, OPEN, VALUE};
use super::{address, begin, end, end_at, mark, now_ns, regions};
use crate::events::texts::StaticText;

callbacks! {
    /// A region begins.
    fn on_parallel_begin(task: Data, frame: *const c_void, region: Data, threads: c_uint, flags: c_int, code: CodeAddress)
        = PARALLEL_BEGIN as ParallelBegin, parallel_begin;
    /// It ends.
    fn on_parallel_end(region: Data, task: Data, flags: c_int, code: CodeAddress) = PARALLEL_END as ParallelEnd, parallel_end;
    /// A thread begins or ends its part of a region.
    fn on_implicit_task(endpoint: c_int, region: Data, task: Data, threads: c_uint, index: c_uint, flags: c_int)
        = IMPLICIT_TASK as ImplicitTask, implicit_task;
    /// A work-sharing construct begins or ends in a thread.
    fn on_work(kind: c_int, endpoint: c_int, region: Data, task: Data, count: u64, code: CodeAddress) = WORK as Work, work;
    /// The thread that a masked construct lets in begins or ends it.
    fn on_masked(endpoint: c_int, region: Data, task: Data, code: CodeAddress) = MASKED as Masked, masked;
    /// A thread comes to a barrier or waits for tasks, or goes on.
    fn on_sync_region(kind: c_int, endpoint: c_int, region: Data, task: Data, code: CodeAddress)
        = SYNC_REGION as SyncRegion, sync_region;
    /// A thread begins or ends its part of a reduction.
    fn on_reduction(kind: c_int, endpoint: c_int, region: Data, task: Data, code: CodeAddress)
        = REDUCTION as SyncRegion, reduction;
    /// A construct is cancelled.
    fn on_cancel(task: Data, flags: c_int, code: CodeAddress) = CANCEL as Cancel, cancel;
}

static PARALLEL: StaticText = StaticText::new("parallel");
static TEAMS: StaticText = StaticText::new("teams");
static IMPLICIT_TASK: StaticText = StaticText::new("implicit task");
static MASKED: StaticText = StaticText::new("masked");
static REDUCTION: StaticText = StaticText::new("reduction");
static CANCEL: StaticText = StaticText::new("cancel");

/// By `ompt_work_t`.
static WORK: [StaticText; 14] = [
    StaticText::new("work"),
    StaticText::new("loop"),
    StaticText::new("sections"),
    StaticText::new("single"),
    StaticText::new("single (other thread)"),
    StaticText::new("workshare"),
    StaticText::new("distribute"),
    StaticText::new("taskloop"),
    StaticText::new("scope"),
    StaticText::new("work"),
    StaticText::new("loop (static)"),
    StaticText::new("loop (dynamic)"),
    StaticText::new("loop (guided)"),
    StaticText::new("loop (other schedule)"),
];

/// By `ompt_sync_region_t`.
static SYNC: [StaticText; 11] = [
    StaticText::new("wait"),
    StaticText::new("barrier"),
    StaticText::new("implicit barrier"),
    StaticText::new("barrier"),
    StaticText::new("runtime barrier"),
    StaticText::new("taskwait"),
    StaticText::new("taskgroup"),
    StaticText::new("reduction wait"),
    StaticText::new("implicit barrier"),
    StaticText::new("implicit barrier"),
    StaticText::new("teams barrier"),
];

/// `ompt_parallel_league`: not a team, but a league of them.
const LEAGUE: c_int = 0x4000_0000;

fn by_number(texts: &'static [StaticText], number: c_int) -> &'static StaticText {
    let found = usize::try_from(number).ok().and_then(|at| texts.get(at));
    found.unwrap_or(&texts[0])
}

fn parallel_begin(
    _task: Data,
    _frame: *const c_void,
    region: Data,
    threads: c_uint,
    flags: c_int,
    code: CodeAddress,
) {
    let code = address(code);
    let what = if flags & LEAGUE == 0 {
        &PARALLEL
    } else {
        &TEAMS
    };
    begin(
        what,
        code,
        &[(Key::Threads, Value::Uint(u64::from(threads)))],
    );
    data::set(region, regions::open(code));
}

fn parallel_end(region: Data, _task: Data, _flags: c_int, _code: CodeAddress) {
    let now_ns = now_ns();
    regions::close(data::get(region), now_ns);
    data::set(region, 0);
    end_at(now_ns);
}

fn implicit_task(
    endpoint: c_int,
    region: Data,
    task: Data,
    threads: c_uint,
    index: c_uint,
    flags: c_int,
) {
    if endpoint == abi::BEGIN {
        // The task around the whole program is no part of any region.
        if flags & abi::TASK_INITIAL != 0 {
            data::set(task, IMPLICIT);
            return;
        }
        let region = data::get(region) & VALUE;
        regions::enter(region);
        data::set(task, IMPLICIT | OPEN | region);
        let args = [
            (Key::Index, Value::Uint(u64::from(index))),
            (Key::Threads, Value::Uint(u64::from(threads))),
        ];
        begin(&IMPLICIT_TASK, regions::code(region), &args);
    } else if endpoint == abi::END {
        let known = data::get(task);
        data::set(task, 0);
        if known & OPEN != 0 {
            end_at(regions::end_or(known & VALUE, now_ns()));
            regions::leave(known & VALUE);
        }
    }
}

fn work(kind: c_int, endpoint: c_int, _region: Data, _task: Data, count: u64, code: CodeAddress) {
    if endpoint == abi::BEGIN {
        let args = [(Key::Iterations, Value::Uint(count))];
        begin(by_number(&WORK, kind), address(code), &args);
    } else if endpoint == abi::END {
        end();
    } else {
        mark(by_number(&WORK, kind), address(code), &[]);
    }
}

fn masked(endpoint: c_int, _region: Data, _task: Data, code: CodeAddress) {
    scope(endpoint, &MASKED, code);
}

fn reduction(_kind: c_int, endpoint: c_int, _region: Data, _task: Data, code: CodeAddress) {
    scope(endpoint, &REDUCTION, code);
}

fn scope(endpoint: c_int, what: &'static StaticText, code: CodeAddress) {
    if endpoint == abi::BEGIN {
        begin(what, address(code), &[]);
    } else if endpoint == abi::END {
        end();
    }
}

fn sync_region(kind: c_int, endpoint: c_int, _region: Data, task: Data, code: CodeAddress) {
    let task = data::get(task);
    let region = if task & IMPLICIT == 0 {
        0
    } else {
        task & VALUE
    };
    if endpoint == abi::BEGIN {
        let code = address(code);
        // The barrier at the end of a region is nobody's call but the region's.
        let code = if code == 0 {
            regions::code(region)
        } else {
            code
        };
        begin(by_number(&SYNC, kind), code, &[]);
    } else if endpoint == abi::END {
        // A worker is woken from the last barrier of its region when there is work again.
        end_at(regions::end_or(region, now_ns()));
    }
}

fn cancel(_task: Data, flags: c_int, code: CodeAddress) {
    let flags = Value::Uint(u64::from(flags.cast_unsigned()));
    mark(&CANCEL, address(code), &[(Key::Flags, flags)]);
}
