//! `gpu_metrics`: the driver's binary table of sensors, format 1.3.

/// Values of one GPU.
#[derive(Debug, Clone, Copy)]
pub struct Metrics {
    /// Temperature at the edge of the die.
    pub edge_degrees: f64,
    /// How busy the GPU is.
    pub busy_percent: u16,
    /// How busy its memory is.
    pub memory_busy_percent: u16,
    /// Power.
    pub power_w: f64,
    /// Energy since the beginning.
    pub energy_j: f64,
    /// CLOCK_BOOTTIME.
    pub now_ns: u64,
    /// Engine clock.
    pub clock_mhz: u32,
    /// Memory clock.
    pub memory_clock_mhz: u32,
    /// Speed of the fan.
    pub fan_rpm: u16,
    /// Busy time since the beginning.
    pub busy_seconds: f64,
}

/// Size of the table.
const BYTES: u16 = 120;
/// The unit of energy.
const ENERGY_UNIT_J: f64 = 15.259e-6;
const NOT_AVAILABLE: u16 = u16::MAX;

impl Metrics {
    /// The table.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BYTES.into());
        let edge = self.edge_degrees.round() as u16;
        let clocks =
            [self.clock_mhz, 1000, self.memory_clock_mhz, 0, 0, 0, 0].map(|mhz| mhz as u16);
        bytes.extend(BYTES.to_le_bytes());
        // Format and content revision.
        bytes.extend([1, 3]);
        let mut numbers = |values: &[u16]| {
            values
                .iter()
                .for_each(|value| bytes.extend(value.to_le_bytes()))
        };
        // Edge, hot spot, memory, and three regulators.
        numbers(&[edge, edge + 5, edge + 2, edge, edge, edge]);
        // Activity: graphics, memory, media; power.
        numbers(&[
            self.busy_percent,
            self.memory_busy_percent,
            0,
            self.power_w.round() as u16,
        ]);
        bytes.extend(((self.energy_j / ENERGY_UNIT_J) as u64).to_le_bytes());
        bytes.extend(self.now_ns.to_le_bytes());
        let mut numbers = |values: &[u16]| {
            values
                .iter()
                .for_each(|value| bytes.extend(value.to_le_bytes()))
        };
        // Average and current clocks.
        numbers(&clocks);
        numbers(&clocks);
        // Throttling (32 bits), fan, link width, link speed in 0.1 GT/s, padding.
        numbers(&[0, 0, self.fan_rpm, 16, 160, 0]);
        let accumulated = (self.busy_seconds * 1000.0) as u32;
        bytes.extend(accumulated.to_le_bytes());
        bytes.extend(accumulated.to_le_bytes());
        let mut numbers = |values: &[u16]| {
            values
                .iter()
                .for_each(|value| bytes.extend(value.to_le_bytes()))
        };
        // Stacks of memory.
        numbers(&[edge + 2, edge + 2, edge + 3, edge + 3]);
        bytes.extend((self.now_ns / 10).to_le_bytes());
        let mut numbers = |values: &[u16]| {
            values
                .iter()
                .for_each(|value| bytes.extend(value.to_le_bytes()))
        };
        // Voltages: system, graphics, memory; padding.
        numbers(&[NOT_AVAILABLE, 850, NOT_AVAILABLE, 0]);
        bytes.extend(0_u64.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_as_long_as_it_says() {
        let metrics = Metrics {
            edge_degrees: 41.4,
            busy_percent: 63,
            memory_busy_percent: 20,
            power_w: 214.6,
            energy_j: 1.0,
            now_ns: 5,
            clock_mhz: 1700,
            memory_clock_mhz: 1600,
            fan_rpm: 1200,
            busy_seconds: 1.5,
        };
        let bytes = metrics.to_bytes();
        let at = |offset: usize| u16::from_le_bytes([bytes[offset], bytes[offset + 1]]);
        assert_eq!(bytes.len(), usize::from(BYTES));
        assert_eq!((at(0), &bytes[2..4]), (BYTES, [1, 3].as_slice()));
        assert_eq!((at(4), at(16), at(22)), (41, 63, 215));
        assert_eq!((at(40), at(54)), (1700, 1700));
    }
}
