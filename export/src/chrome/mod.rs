//! JSON of PyTorch's profiler (Kineto), which is Chrome's with agreed categories: what TraceLens and HTA read.
//!
//! Times are microseconds with three decimals, so no nanosecond is lost. An operation of a GPU stands on process `device` and thread `stream`, its
//! call on the thread that made it, and both share `correlation`, `External id` and an arrow `ac2g`.
//!
//! | file | holds |
//! |---|---|
//! | `places` | the process and thread ids |
//! | `events` | operations, calls, ranges and so on |
//! | `collectives` | what kernels say of the collective that they are of |
//! | `names` | what stands in front of the events, and the names of processes and threads |

mod collectives;
mod events;
mod names;
mod places;

use std::collections::HashMap;
use std::io::Write;

use crate::Failure;
use crate::run::Run;
use places::Place;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// What PyTorch's profiler writes, with functions of launch stacks for operators if there are none.
    Kineto,
    /// All that the format can hold, for viewers.
    Chrome,
}

/// The file while it is written.
struct File<'a> {
    run: &'a Run<'a>,
    form: Form,
    places: HashMap<u64, Place>,
    /// What stands in front of the next event.
    between: &'static [u8],
    line: Vec<u8>,
    out: &'a mut dyn Write,
}

/// Writes a JSON object with all events.
///
/// # Errors
/// When the store is damaged, or `out` fails.
pub(crate) fn write(run: &Run<'_>, form: Form, out: &mut dyn Write) -> Result<(), Failure> {
    let mut file = File {
        run,
        form,
        places: places::places(run)?,
        between: b"\n",
        line: Vec::new(),
        out,
    };
    file.head()?;
    if run.only.gpu {
        file.operations()?;
    }
    if run.only.gpu || run.only.rccl {
        file.calls()?;
    }
    if run.only.ranges {
        file.ranges()?;
        file.marks()?;
    }
    if form == Form::Chrome {
        if run.only.samples {
            file.waits()?;
        }
        if run.only.sensors {
            file.counters()?;
        }
    }
    file.names()?;
    file.out.write_all(b"\n]}\n")?;
    Ok(())
}

impl File<'_> {
    /// Begins an event; the rest is appended to `line`.
    #[inline]
    fn event(&mut self) -> &mut Vec<u8> {
        self.line.clear();
        self.line.extend_from_slice(self.between);
        self.between = b",\n";
        &mut self.line
    }

    #[inline]
    fn put(&mut self) -> Result<(), Failure> {
        Ok(self.out.write_all(&self.line)?)
    }
}
