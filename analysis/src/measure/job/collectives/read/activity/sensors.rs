//! What sensors said in some stretches of time.

use std::collections::BTreeMap;

use rsys_traces::model::{CounterId, CounterValue};

/// Values of sensors around some stretches. A value holds until the next one of its sensor, and as long as sensors were read at all.
#[derive(Debug, Default)]
pub(super) struct Readings {
    /// In order; they may overlap.
    windows: Vec<(u64, u64)>,
    values: BTreeMap<CounterId, Vec<(u64, f64)>>,
    /// The last reading of any sensor.
    read_until_ns: u64,
}

impl Readings {
    /// Nothing so far, of stretches that are in order.
    pub(super) fn within(windows: Vec<(u64, u64)>) -> Self {
        Self {
            windows,
            values: BTreeMap::new(),
            read_until_ns: 0,
        }
    }

    pub(super) fn take(&mut self, values: &[CounterValue]) {
        let Some(&(first_ns, _)) = self.windows.first() else {
            return;
        };
        let latest_ns = values.iter().map(|one| one.time_ns).max();
        self.read_until_ns = self.read_until_ns.max(latest_ns.unwrap_or(0));
        let last_ns = self.windows.iter().map(|window| window.1).max();
        let is_of_use = |one: &&CounterValue| one.value.is_finite() && Some(one.time_ns) <= last_ns;
        for one in values.iter().filter(is_of_use) {
            let of_sensor = self.values.entry(one.counter).or_default();
            // Of those before the first stretch only the last holds in it.
            match of_sensor.first_mut() {
                Some(known) if known.0 <= first_ns && one.time_ns <= first_ns => {
                    if one.time_ns >= known.0 {
                        *known = (one.time_ns, one.value);
                    }
                }
                _ => of_sensor.push((one.time_ns, one.value)),
            }
        }
    }

    /// The mean of each sensor over the stretches, as far as it had said anything by then.
    pub(super) fn means(&mut self) -> Vec<(CounterId, f64)> {
        let (windows, read_until_ns) = (&self.windows, self.read_until_ns);
        let means = self.values.iter_mut().filter_map(|(&id, values)| {
            values.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
            let (mut sum, mut time_ns) = (0.0, 0);
            for &(start_ns, end_ns) in windows {
                let first = values.partition_point(|value| value.0 <= start_ns);
                for place in first.saturating_sub(1)..values.len() {
                    let (from_ns, value) = values[place];
                    if from_ns >= end_ns {
                        break;
                    }
                    let next = values.get(place + 1);
                    let until_ns = next.map_or(read_until_ns, |next| next.0);
                    let held_ns = until_ns.min(end_ns).saturating_sub(from_ns.max(start_ns));
                    sum += value * held_ns as f64;
                    time_ns += held_ns;
                }
            }
            (time_ns > 0).then(|| (id, sum / time_ns as f64))
        });
        means.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_until_the_next_one() {
        let mut readings = Readings::within(vec![(100, 200), (300, 400)]);
        let value = |time_ns, value| CounterValue {
            time_ns,
            counter: CounterId::new(0),
            value,
        };
        // Half of the first stretch is 10, half of it 20; the second is 40. Those before and behind do not count.
        readings.take(&[value(10, 99.0), value(50, 10.0), value(150, 20.0)]);
        readings.take(&[value(250, 40.0), value(401, 7.0)]);
        assert_eq!(readings.means(), [(CounterId::new(0), 27.5)]);
        // The process that read them ended before the second stretch.
        let mut ended = Readings::within(vec![(100, 200), (300, 400)]);
        ended.take(&[value(50, 10.0), value(150, 20.0)]);
        let other = CounterId::new(1);
        let last = CounterValue {
            counter: other,
            ..value(200, 1.0)
        };
        ended.take(&[last]);
        assert_eq!(ended.means(), [(CounterId::new(0), 15.0)]);
        // Nothing was said by then.
        let mut late = Readings::within(vec![(100, 200)]);
        late.take(&[value(200, 10.0)]);
        assert!(late.means().is_empty());
    }
}
