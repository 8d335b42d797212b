//! The original's interface for regions: `rocprofsys_user_…`, and by its older name `omnitrace_user_…`.
//!
//! Programs are linked with its small library `librocprof-sys-user.so`, which without the original does nothing. It is called as well.

use std::ffi::{c_char, c_int};

use rsys_wire::event::Category;

use super::values::{Annotation, Values};
use super::{mark, pop, push, set_paused};
use crate::sources::source::Source;
use crate::sys;

/// What the functions return where no library does.
const SUCCESS: c_int = 0;

/// The functions under one of their two names.
macro_rules! interface {
    ($module:ident, $prefix:literal, $start:ident, $stop:ident, $start_thread:ident, $stop_thread:ident, $push:ident, $pop:ident,
     $push_annotated:ident, $pop_annotated:ident, $progress:ident, $annotated_progress:ident) => {
        mod $module {
            use super::*;

            crate::wrap! {
                fn $start() -> c_int = start;
                fn $stop() -> c_int = stop;
                fn $start_thread() -> c_int = start_thread;
                fn $stop_thread() -> c_int = stop_thread;
                fn $push(name: *const c_char) -> c_int = push_region;
                fn $pop(name: *const c_char) -> c_int = pop_region;
                fn $push_annotated(name: *const c_char, list: *mut Annotation, count: usize) -> c_int = push_annotated;
                fn $pop_annotated(name: *const c_char, list: *mut Annotation, count: usize) -> c_int = pop_annotated;
                fn $progress(name: *const c_char) -> c_int = progress;
                fn $annotated_progress(name: *const c_char, list: *mut Annotation, count: usize) -> c_int = annotated_progress;
            }

            pub static SOURCE: Source = Source {
                categories: &[Category::User],
                prefix: $prefix,
                wrapped: WRAPPED,
                is_always_there: true,
                ..Source::NONE
            };
        }
    };
}

interface!(
    rocprofsys,
    b"rocprofsys_user_",
    rocprofsys_user_start_trace,
    rocprofsys_user_stop_trace,
    rocprofsys_user_start_thread_trace,
    rocprofsys_user_stop_thread_trace,
    rocprofsys_user_push_region,
    rocprofsys_user_pop_region,
    rocprofsys_user_push_annotated_region,
    rocprofsys_user_pop_annotated_region,
    rocprofsys_user_progress,
    rocprofsys_user_annotated_progress
);
interface!(
    omnitrace,
    b"omnitrace_user_",
    omnitrace_user_start_trace,
    omnitrace_user_stop_trace,
    omnitrace_user_start_thread_trace,
    omnitrace_user_stop_thread_trace,
    omnitrace_user_push_region,
    omnitrace_user_pop_region,
    omnitrace_user_push_annotated_region,
    omnitrace_user_pop_annotated_region,
    omnitrace_user_progress,
    omnitrace_user_annotated_progress
);

/// By its name of today.
pub static NEW: &Source = &rocprofsys::SOURCE;
/// By its older name.
pub static OLD: &Source = &omnitrace::SOURCE;

type Plain = unsafe extern "C" fn() -> c_int;
type WithName = unsafe extern "C" fn(*const c_char) -> c_int;
type WithList = unsafe extern "C" fn(*const c_char, *mut Annotation, usize) -> c_int;

fn through(real: Option<Plain>) -> c_int {
    // SAFETY: no arguments.
    real.map_or(SUCCESS, |real| unsafe { real() })
}

fn through_with(real: Option<WithName>, name: *const c_char) -> c_int {
    // SAFETY: the caller's own argument.
    real.map_or(SUCCESS, |real| unsafe { real(name) })
}

fn start(real: Option<Plain>, _place: usize) -> c_int {
    set_paused(Category::User, 0, false);
    through(real)
}

fn stop(real: Option<Plain>, _place: usize) -> c_int {
    set_paused(Category::User, 0, true);
    through(real)
}

fn start_thread(real: Option<Plain>, _place: usize) -> c_int {
    set_paused(Category::User, u64::from(sys::gettid()), false);
    through(real)
}

fn stop_thread(real: Option<Plain>, _place: usize) -> c_int {
    set_paused(Category::User, u64::from(sys::gettid()), true);
    through(real)
}

fn push_region(real: Option<WithName>, _place: usize, name: *const c_char) -> c_int {
    push(name, &Values::None);
    through_with(real, name)
}

fn pop_region(real: Option<WithName>, _place: usize, name: *const c_char) -> c_int {
    pop(&Values::None);
    through_with(real, name)
}

fn progress(real: Option<WithName>, _place: usize, name: *const c_char) -> c_int {
    mark(name, &Values::None);
    through_with(real, name)
}

/// The functions with annotations.
macro_rules! annotated {
    ($($name:ident = |$text:ident, $values:ident| $do:expr;)*) => { $(
        fn $name(
            real: Option<WithList>,
            _place: usize,
            $text: *const c_char,
            list: *mut Annotation,
            count: usize,
        ) -> c_int {
            // SAFETY: the caller's own list.
            let $values = unsafe { Values::of_annotations(list, count) };
            $do;
            // SAFETY: the caller's own arguments.
            real.map_or(SUCCESS, |real| unsafe { real($text, list, count) })
        }
    )* };
}

annotated! {
    push_annotated = |name, values| push(name, &values);
    pop_annotated = |name, values| pop(&values);
    annotated_progress = |name, values| mark(name, &values);
}
