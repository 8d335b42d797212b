//! Communicators of which the order of collectives alone is known: which ranks are in one.
//!
//! Ranks of one have equally many collectives, and end each together. On clocks that nothing compares they are as far apart each
//! time, while the times between them vary.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use super::identity::is_of_unknown_host;
use super::judging::ends_tell;
use super::records::{Group, GroupMember, GroupTotals, Matching};
use rsys_traces::model::{CollectiveCall, Model};

/// What ranks end together ends within this time on them, by one clock.
const TOGETHER_NS: u64 = 100_000;
/// And within this time where clocks are compared by these ends alone.
const ACROSS_NS: u64 = 20_000;
/// Maximum drift between two clocks, as a fraction.
const DRIFT: f64 = 1e-4;
/// Of ten collectives, so many do.
const OF_TEN: usize = 9;
/// Collectives by which two ranks are compared, at most and at least.
const COMPARED: usize = 1 << 12;
const FEWEST: usize = 8;
/// Where clocks are compared by ends alone, the times between them have to vary so many times as much as the ends are apart: programs that are as regular as that end in step by
/// chance.
const VARIES: u64 = 4;
/// Collectives after which a program may come to the same ones again.
const PATTERN: usize = 64;

/// A rank by some of its collectives.
struct Sampled {
    shapes: Vec<usize>,
    /// Of those that end together on all ranks.
    ends: Vec<u64>,
    /// How much the times between them vary, once that is asked.
    varies_ns: OnceCell<u64>,
}

impl Sampled {
    fn of(member: &GroupMember, tells: impl Fn(usize) -> bool) -> Self {
        let stride = member.rows.len().div_ceil(COMPARED).max(1);
        let rows = member.rows.iter().step_by(stride);
        let rows = rows.map(|row| ((row[4] >> 2) as usize, row[1] + row[2]));
        let rows: Vec<(usize, u64)> = rows.collect();
        let shapes = rows.iter().map(|(shape, _)| *shape).collect();
        let ends = rows.into_iter().filter(|(shape, _)| tells(*shape));
        let ends: Vec<u64> = ends.map(|(_, end_ns)| end_ns).collect();
        Self {
            shapes,
            ends,
            varies_ns: OnceCell::new(),
        }
    }

    fn varies_ns(&self) -> u64 {
        *self.varies_ns.get_or_init(|| {
            let gaps = self.ends.windows(2).map(|two| two[1].abs_diff(two[0]));
            let gaps: Vec<u64> = gaps.collect();
            let after = |count: usize| {
                let pairs = gaps.iter().zip(&gaps[count..]);
                median(pairs.map(|(one, other)| one.abs_diff(*other)).collect())
            };
            let varies = (1..=PATTERN.min(gaps.len() / 2)).map(after);
            varies.min().unwrap_or(0)
        })
    }

    /// Whether another runs the same collectives, and ends each when this one does.
    fn is_together(&self, other: &Self, is_one_clock: bool) -> bool {
        if self.shapes != other.shapes || self.ends.len() < FEWEST {
            return false;
        }
        let apart = self.ends.iter().zip(&other.ends);
        let apart: Vec<i64> = apart
            .map(|(one, other)| one.wrapping_sub(*other).cast_signed())
            .collect();
        let are_most = |near: usize| 10 * near >= OF_TEN * apart.len();
        let are_within = |together_ns: u64| {
            let near = apart.iter().filter(|ns| ns.unsigned_abs() <= together_ns);
            are_most(near.count())
        };
        if is_one_clock {
            return are_within(TOGETHER_NS);
        }
        // Clocks that were set by each other agree as they are.
        if are_within(ACROSS_NS) {
            return true;
        }
        let off = self.off_line(&apart);
        let near = off.iter().filter(|ns| ns.unsigned_abs() <= ACROSS_NS);
        let usual_ns = median(off.iter().map(|ns| ns.unsigned_abs()).collect());
        let least_ns = VARIES * usual_ns.max(ACROSS_NS / VARIES);
        let varies = || self.varies_ns().min(other.varies_ns()) > least_ns;
        are_most(near.count()) && varies()
    }

    /// How far the differences of two clocks are from those of clocks that run evenly.
    fn off_line(&self, apart: &[i64]) -> Vec<i64> {
        let third = apart.len().div_ceil(3);
        let begin = self.ends[0];
        let times = self.ends.iter().map(|end_ns| end_ns.saturating_sub(begin));
        let times: Vec<u64> = times.collect();
        let last = apart.len() - third;
        let over = median(times[last..].to_vec()).abs_diff(median(times[..third].to_vec()));
        let moved = median(apart[last..].to_vec()) - median(apart[..third].to_vec());
        let drift = (moved as f64 / over.max(1) as f64).clamp(-DRIFT, DRIFT);
        let even = apart.iter().zip(&times);
        let even = even.map(|(ns, time)| ns - (drift * *time as f64) as i64);
        let even: Vec<i64> = even.collect();
        let offset = median(even.clone());
        even.into_iter().map(|ns| ns - offset).collect()
    }
}

fn median<T: Ord + Copy + Default>(mut values: Vec<T>) -> T {
    let middle = values.len() / 2;
    match values.is_empty() {
        true => T::default(),
        false => *values.select_nth_unstable(middle).1,
    }
}

impl Matching {
    /// Tells such communicators apart. Those of which ranks have different numbers of collectives are dropped: nothing tells which belong together.
    pub(super) fn tell_orders_apart(&mut self, model: &Model) {
        for group in std::mem::take(&mut self.groups) {
            if !CollectiveCall::is_by_order(&group.communicator) {
                self.groups.push(group);
                continue;
            }
            let Group {
                communicator,
                lane,
                members,
                ..
            } = group;
            let mut by_count: BTreeMap<usize, Vec<GroupMember>> = BTreeMap::new();
            for member in members {
                let of_count = by_count.entry(member.rows.len()).or_default();
                of_count.push(member);
            }
            if by_count.len() > 1 && by_count.values().any(|of_count| of_count.len() == 1) {
                let counts = by_count.into_iter();
                let counts = counts.map(|(count, ranks)| (count, ranks.len()));
                self.uneven.push((communicator, counts.collect()));
                continue;
            }
            let tells = |shape: usize| ends_tell(model.text(self.shapes[shape].name));
            let mut together: Vec<(Sampled, Vec<GroupMember>)> = Vec::new();
            for member in by_count.into_values().flatten() {
                let own = Sampled::of(&member, tells);
                let fits = |(first, ranks): &(Sampled, Vec<GroupMember>)| {
                    is_other(ranks, &member)
                        && first.is_together(&own, are_of_one_clock(&ranks[0], &member, model))
                };
                match together.iter().position(fits) {
                    Some(place) => together[place].1.push(member),
                    None => together.push((own, vec![member])),
                }
            }
            let mut together: Vec<Vec<GroupMember>> =
                together.into_iter().map(|(_, ranks)| ranks).collect();
            let hosts = together.iter().map(|ranks| ranks[0].host);
            self.is_by_host |= hosts.collect::<BTreeSet<usize>>().len() > 1;
            // How many ranks there are is not known: one alone says nothing.
            let alone = together.extract_if(.., |ranks| ranks.len() == 1).flatten();
            self.alone += alone.map(|member| member.rows.len() as u64).sum::<u64>();
            let is_one = together.len() == 1;
            for (number, members) in (1..).zip(together) {
                self.groups.push(Group {
                    communicator: match is_one {
                        true => communicator.clone(),
                        false => format!("{communicator}, {number}"),
                    },
                    lane,
                    members,
                    totals: GroupTotals::default(),
                });
            }
        }
    }
}

/// Whether none of some ranks is the same as another, which has as many collectives.
fn is_other(ranks: &[GroupMember], other: &GroupMember) -> bool {
    let is_twice = |one: &GroupMember| one.rank.is_some() && one.rank == other.rank;
    ranks[0].rows.len() == other.rows.len() && !ranks.iter().any(is_twice)
}

fn are_of_one_clock(one: &GroupMember, other: &GroupMember, model: &Model) -> bool {
    one.process == other.process
        || one.host == other.host && !is_of_unknown_host(model.process(one.process))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rank on a clock that is ahead and runs fast: its collectives end with so much of chance in when.
    fn rank(ahead_ns: u64, fast: f64, chance: impl Fn(u64) -> u64) -> Sampled {
        let rows = (0..40_u64).map(|step| {
            let end_ns = 1_000_000_000 + 100_000_000 * step + chance(step);
            let end_ns = end_ns + ahead_ns + (fast * end_ns as f64) as u64;
            [step, end_ns - 5_000, 5_000, 1, 0]
        });
        let mut member = GroupMember {
            process: rsys_traces::model::ProcessId::new(0),
            host: 0,
            rank: None,
            rows: super::super::records::Rows::default(),
        };
        rows.for_each(|row| member.rows.push(row));
        member.rows.sort();
        Sampled::of(&member, |_| true)
    }

    #[test]
    fn ranks_of_two_clocks_are_together_where_their_ends_vary_together() {
        let day_ns = 86_400_000_000_000;
        let chance = |step: u64| 1_000 * (step * step * 7_919 % 4_001);
        let one = rank(0, 0.0, chance);
        let near = |step: u64| chance(step) + 1_000 * (step % 5);
        assert!(one.is_together(&rank(day_ns, 2e-5, near), false));
        // Another has its own chance, or as regular a program.
        let other = |step: u64| 1_000 * (step * step * 104_729 % 3_001);
        assert!(!one.is_together(&rank(day_ns, 2e-5, other), false));
        let regular = |step: u64| 1_000_000 * (step % 2);
        let (one, other) = (rank(0, 0.0, regular), rank(day_ns, 0.0, regular));
        assert!(!one.is_together(&other, false));
        assert!(rank(0, 0.0, regular).is_together(&one, true));
    }

    #[test]
    fn few_collectives_are_no_evidence() {
        let mut few = rank(0, 0.0, |step| 1_000 * (step * step * 7_919 % 4_001));
        few.ends.truncate(FEWEST - 1);
        assert!(!few.is_together(&few, true));
    }
}
