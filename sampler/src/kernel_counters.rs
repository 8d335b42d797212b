//! Hardware counters of single kernels: what their names mean, and their values from what was counted.

use std::sync::Arc;

use rsys_machine::gpu::expression::{Expression, Reduction};
use rsys_wire::kernel_counters::{Counted, KernelCounts};

/// Numbers of a GPU that expressions may name beside events, in the order in which agents tell them.
pub const PROPERTIES: [&str; 4] = ["CU_NUM", "SE_NUM", "SIMD_NUM", "XCC_NUM"];

/// A counter that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelCounter {
    argument: String,
    expression: Expression,
}

impl KernelCounter {
    /// A counter as the user calls it, over events as `SQ:4` and [`PROPERTIES`].
    #[must_use]
    pub fn new(name: &str, expression: Expression) -> Self {
        // What reads traces knows counters among the arguments of kernels by this.
        let argument = format!("counter_{name}");
        Self {
            argument,
            expression,
        }
    }

    /// What it is called among the arguments of a kernel.
    #[must_use]
    pub fn argument(&self) -> &str {
        &self.argument
    }
}

/// What is counted on some GPUs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CounterSet {
    /// The events, in the order in which agents tell what they counted.
    pub events: Vec<String>,
    /// What becomes of them.
    pub counters: Vec<KernelCounter>,
}

/// All sets, in the order in which agents know them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KernelCounters(Arc<[CounterSet]>);

impl KernelCounters {
    /// These sets.
    #[must_use]
    pub fn new(sets: Vec<CounterSet>) -> Self {
        Self(sets.into())
    }

    /// The counters of a kernel that have a value, as its arguments. One whose events were not counted, or that divides by zero, has none.
    #[must_use]
    pub fn values(&self, counts: &KernelCounts) -> Vec<(&str, f64)> {
        let place = usize::try_from(counts.set).ok();
        let set = place.and_then(|place| self.0.get(place));
        let counters = set.into_iter().flat_map(|set| {
            set.counters.iter().filter_map(|counter| {
                let value = set.value(&counter.expression, counts)?;
                Some((counter.argument(), value))
            })
        });
        counters.collect()
    }
}

impl CounterSet {
    fn value(&self, expression: &Expression, counts: &KernelCounts) -> Option<f64> {
        let known = |name: &str, how: Reduction| {
            let place = self.events.iter().position(|event| event == name)?;
            reduced(counts.events().get(place)?, how)
        };
        let property = |name: &str| {
            let place = PROPERTIES.iter().position(|property| *property == name)?;
            Some(counts.gpu[place] as f64)
        };
        let value = expression.reduced(&known, &property)?;
        value.is_finite().then_some(value)
    }
}

fn reduced(counted: &Counted, how: Reduction) -> Option<f64> {
    (counted.instances > 0).then(|| match how {
        Reduction::Sum => counted.sum as f64,
        Reduction::Mean => counted.sum as f64 / counted.instances as f64,
        Reduction::Max => counted.max as f64,
        Reduction::Min => counted.min as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_expressions() {
        let counters = [
            ("SQ_WAVES", "SQ:4"),
            ("PerUnit", "reduce(SQ:4,sum)/CU_NUM"),
            ("Peak", "reduce(SQ:4,max)"),
            ("Missing", "TCC:17+SQ:4"),
            ("Zero", "1/reduce(GRBM:2,sum)"),
        ];
        let counters =
            counters.map(|(name, text)| KernelCounter::new(name, Expression::parse(text).unwrap()));
        let all = KernelCounters::new(vec![CounterSet {
            events: ["SQ:4", "TCC:17", "GRBM:2"].map(str::to_owned).to_vec(),
            counters: counters.to_vec(),
        }]);
        let mut counts = KernelCounts::new(0, [2, 1, 8, 1], 3);
        for value in [10, 30] {
            counts.event(0).unwrap().add(value);
        }
        counts.event(2).unwrap().add(0);
        let expected = [
            ("counter_SQ_WAVES", 40.0),
            ("counter_PerUnit", 20.0),
            ("counter_Peak", 30.0),
        ];
        assert_eq!(all.values(&counts), expected);
        assert_eq!(all.values(&KernelCounts::new(1, [0; 4], 3)), []);
    }
}
