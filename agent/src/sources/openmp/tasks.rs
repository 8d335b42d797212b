//! Explicit tasks: where they were created, and when which thread ran them.

use std::ffi::{c_int, c_void};

use super::abi::{self, CodeAddress, Data};
use super::chain::callbacks;
use super::data::{self, EXPLICIT, OPEN, VALUE};
use super::{address, begin, end, mark};
use crate::events::texts::StaticText;

callbacks! {
    /// A task is created.
    fn on_task_create(creator: Data, frame: *const c_void, task: Data, flags: c_int, has_dependences: c_int, code: CodeAddress)
        = TASK_CREATE as TaskCreate, task_create;
    /// A thread goes from one task to another.
    fn on_task_schedule(prior: Data, status: c_int, next: Data) = TASK_SCHEDULE as TaskSchedule, task_schedule;
}

static CREATE: StaticText = StaticText::new("create task");
static TASK: StaticText = StaticText::new("task");

fn task_create(
    _creator: Data,
    _frame: *const c_void,
    task: Data,
    flags: c_int,
    _has_dependences: c_int,
    code: CodeAddress,
) {
    if flags & abi::TASK_INITIAL != 0 {
        return;
    }
    let code = address(code) & VALUE;
    data::set(task, EXPLICIT | code);
    mark(&CREATE, code, &[]);
}

/// A task that was interrupted by another one, as in a `taskwait`, stays open around it, as on the call stack. So the thread goes back to
/// `next` where that is open, and further in where it is not.
fn task_schedule(prior: Data, status: c_int, next: Data) {
    let before = data::get(prior);
    let is_over = matches!(
        status,
        abi::TASK_COMPLETE | abi::TASK_CANCEL | abi::TASK_DETACH
    );
    // Of a detached task, an event may tell the end: no thread changes its task.
    if next.is_null() {
        return;
    }
    let after = data::get(next);
    let begins = after & EXPLICIT != 0 && after & OPEN == 0;
    if before & EXPLICIT != 0 {
        if before & OPEN != 0 && (is_over || !begins) {
            end();
            data::set(prior, before & !OPEN);
        }
        if matches!(status, abi::TASK_COMPLETE | abi::TASK_CANCEL) {
            data::set(prior, 0);
        }
    }
    if begins {
        begin(&TASK, after & VALUE, &[]);
        data::set(next, after | OPEN);
    }
}
