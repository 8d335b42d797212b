//! `struct perf_event_attr`, made in one place for all who ask the kernel for an event from outside of the target.

use std::fmt;

use perf_event_open_sys::bindings::{
    PERF_ATTR_SIZE_VER1, PERF_ATTR_SIZE_VER5, PERF_COUNT_SW_DUMMY, PERF_SAMPLE_TID,
    PERF_SAMPLE_TIME, perf_event_attr,
};

use super::kernel::{Event, kind};

/// What the kernel is asked for.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Attributes(perf_event_attr);

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attributes")
            .field("kind", &self.0.type_)
            .field("config", &self.0.config)
            .finish_non_exhaustive()
    }
}

impl Attributes {
    /// An event that counts, once it is enabled.
    #[must_use]
    pub fn counting(event: &Event) -> Self {
        let mut attributes = perf_event_attr {
            type_: event.kind,
            // What every kernel with these fields takes (Linux 2.6.33).
            size: PERF_ATTR_SIZE_VER1,
            config: event.config[0],
            ..perf_event_attr::default()
        };
        attributes.__bindgen_anon_3.config1 = event.config[1];
        attributes.__bindgen_anon_4.config2 = event.config[2];
        attributes.set_disabled(1);
        attributes.set_exclude_kernel(event.user_only.into());
        attributes.set_exclude_hv(event.user_only.into());
        Self(attributes)
    }

    /// No event, but a record of each context switch of the thread and of its descendants, from their next exec on: with its thread
    /// and time (CLOCK_BOOTTIME), and a wake-up after `wakeup_bytes` of them.
    #[must_use]
    pub fn context_switches(wakeup_bytes: u32) -> Self {
        let mut attributes = perf_event_attr {
            type_: kind::SOFTWARE,
            // Linux 4.1.
            size: PERF_ATTR_SIZE_VER5,
            config: PERF_COUNT_SW_DUMMY.into(),
            sample_type: (PERF_SAMPLE_TID | PERF_SAMPLE_TIME).into(),
            clockid: libc::CLOCK_BOOTTIME,
            ..perf_event_attr::default()
        };
        attributes.__bindgen_anon_2.wakeup_watermark = wakeup_bytes;
        attributes.set_disabled(1);
        attributes.set_inherit(1);
        attributes.set_exclude_kernel(1);
        attributes.set_exclude_hv(1);
        attributes.set_enable_on_exec(1);
        attributes.set_watermark(1);
        attributes.set_sample_id_all(1);
        attributes.set_use_clockid(1);
        attributes.set_context_switch(1);
        Self(attributes)
    }

    /// The same from now on, and of one thread without its descendants.
    #[must_use]
    pub fn context_switches_of_thread(wakeup_bytes: u32) -> Self {
        let mut attributes = Self::context_switches(wakeup_bytes);
        attributes.0.set_disabled(0);
        attributes.0.set_inherit(0);
        attributes.0.set_enable_on_exec(0);
        attributes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The attributes as the kernel reads them, in words of eight bytes.
    fn words<const COUNT: usize>(attributes: &Attributes) -> [u64; COUNT] {
        assert!(COUNT * 8 <= size_of::<Attributes>());
        // SAFETY: a structure of plain numbers without padding, larger than what is read of it.
        unsafe { std::ptr::from_ref(attributes).cast::<[u64; COUNT]>().read() }
    }

    #[test]
    fn the_kernel_reads_what_is_meant() {
        let event = Event {
            user_only: true,
            config: [7, 8, 9],
            ..Event::software(0)
        };
        // Kind and size; config; …; flags; …; config1; config2.
        let expected = [1 | 72 << 32, 7, 0, 0, 0, 0x61, 0, 8, 9];
        assert_eq!(words::<9>(&Attributes::counting(&event)), expected);
        let switches = words::<14>(&Attributes::context_switches(4096));
        assert_eq!(switches[..6], [1 | 112 << 32, 9, 0, 6, 0, 0x604_5063]);
        assert_eq!(switches[6], 4096);
        // The clock stands behind the size of a stack.
        assert_eq!(switches[11], 7 << 32);
    }
}
