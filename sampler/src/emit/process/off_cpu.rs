//! When a process's threads were off the processor, on its way into the trace.

use super::{ProcessTrace, Tools};
use crate::offcpu::Absences;

impl ProcessTrace {
    /// Takes over what was seen of context switches. It alone opens no trace.
    pub fn take_absences(&mut self, absences: Absences, tools: &Tools<'_>) {
        self.off_cpu.hold(absences, &mut self.tally);
        self.draw_absences(tools);
        self.flush(false);
    }

    pub(super) fn draw_absences(&mut self, tools: &Tools<'_>) {
        if let Some(output) = &mut self.output {
            self.off_cpu.draw(output, tools.run, &mut self.tally);
        }
    }
}
