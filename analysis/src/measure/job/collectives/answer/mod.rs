//! The answer: stragglers in words, operations, ranks, the largest skews, communicators, clocks.

mod bandwidths;
mod lateness_map;
mod notes;
mod proxy_waits;

use super::job::cause::duration_text;
use super::job::found::Found;
use super::job::proxy_waits::ProxyWaits;
use super::job::records::{Group, Matching, RankTotals};
use super::job::replay::{Change, Replay};
use super::job::stragglers::{Straggler, all_late};
use super::read::operations::Lane;
use crate::measure::job::mpi;
use crate::measure::job::operation::Operation;
use crate::measure::job::ranks::{RANK, rank_cells, rank_name};
use crate::measure::unseen;
use crate::table::{Answer, Cell, Column, Table, Unit};
use rsys_traces::model::{Model, ProcessId};

pub(super) const fn bandwidth(key: &'static str, title: &'static str) -> Column {
    Column {
        key,
        title,
        unit: Unit::Bandwidth,
    }
}

impl Found {
    /// The answer, with the causes of what was read again.
    #[must_use]
    pub fn answer(&self, model: &Model) -> Answer {
        let (matching, stragglers, proxy_waits) =
            (&self.matching, &self.stragglers, &self.proxy_waits);
        let mut of_mpi = mpi::tables(&matching.mpi, model).into_iter();
        let tables = [
            Some(ranks(matching, model)),
            Some(stragglers_table(matching, stragglers, proxy_waits, model)),
            Some(what_if(matching, stragglers, model)),
            of_mpi.next(),
            of_mpi.next(),
            Some(operations(matching, model)),
            Some(bandwidths::table(matching, model)),
            proxy_waits.table(&matching.shapes, model),
            Some(instances(matching, model)),
            Some(communicators(matching)),
            Some(clocks(matching)),
            Some(matching.lateness_map.table(matching, model)),
        ];
        Answer {
            tables: tables.into_iter().flatten().collect(),
            notes: notes::notes(matching, stragglers, model),
            is_empty: matching.groups.is_empty() && matching.mpi.is_empty(),
            ..Answer::default()
        }
    }
}

/// All ranks that stand out, where these are several.
pub(crate) const TOGETHER: &str = "all late ranks were like the others";

/// What the job would gain if a straggler were like the other ranks, if all stragglers were, and if all ranks were alike.
fn what_if(matching: &Matching, stragglers: &[Straggler], model: &Model) -> Table {
    let mut columns = vec![Column::plain("change", "if")];
    columns.extend(RANK);
    columns.extend([
        Column::plain("ranks", "ranks"),
        Column::ns("collectives_ns", "collectives take"),
        Column::ns("predicted_ns", "then"),
        Column::ns("saved_ns", "saved"),
        Column::share("saved_share", "of it"),
        Column::share("replayed_share", ""),
    ]);
    let title = match matching.mpi.is_empty() {
        true => "What if: from the first collective to the last",
        false => "What if: from the first call of MPI to the last",
    };
    let mut table = Table::new("what_if", title, &columns);
    // Messages and collectives are gone through together.
    let of_mpi = (!matching.mpi.is_empty()).then(|| matching.mpi.replay());
    let of_collectives = of_mpi.is_none().then(|| Replay::new(matching, model));
    let share = of_collectives.as_ref().map(|replay| replay.replayed_share);
    let share = share.unwrap_or_else(|| matching.mpi.share());
    let run = |change: Change<'_>| match (&of_mpi, &of_collectives) {
        (Some(replay), _) => match change {
            Change::None => replay.run(None),
            change => replay.run(Some(&|id| change.concerns(id))),
        },
        (_, replay) => replay.as_ref()?.run(change),
    };
    let Some(as_it_was_ns) = run(Change::None) else {
        return table;
    };
    let mut late = all_late(matching, model);
    // They are looked for in order.
    late.sort_unstable();
    let of_stragglers = stragglers.iter().map(|one| {
        let change = Change::LikeOthers(std::slice::from_ref(&one.process));
        ("the rank were like the others", change)
    });
    let together = [(TOGETHER, Change::LikeOthers(&late))];
    let together = together.into_iter().filter(|_| late.len() > 1);
    let alike = [("all ranks were alike", Change::AllAlike)];
    for (words, change) in of_stragglers.chain(together).chain(alike) {
        let predicted_ns = run(change).unwrap_or(as_it_was_ns);
        let mut cells: Vec<Cell> = vec![words.into()];
        match change {
            Change::LikeOthers(&[id]) => cells.extend(rank_cells(model, id)),
            _ => cells.extend([Cell::Null, Cell::Null, Cell::Null]),
        }
        let changed = match change {
            Change::LikeOthers(ranks) => ranks.len(),
            _ => matching.rank_totals.len(),
        };
        let saved_ns = as_it_was_ns.saturating_sub(predicted_ns);
        cells.extend::<[Cell; 6]>([
            (changed as u64).into(),
            as_it_was_ns.into(),
            predicted_ns.into(),
            saved_ns.into(),
            (saved_ns as f64 / as_it_was_ns as f64).into(),
            share.into(),
        ]);
        table.push(cells);
    }
    table
}

/// Per rank: what it was charged with.
fn ranks(matching: &Matching, model: &Model) -> Table {
    let mut columns = RANK.to_vec();
    columns.extend([
        Column::plain("operations", "operations"),
        Column::plain("last", "last"),
        Column::ns("blame_ns", "made others wait"),
        Column::ns("inherited_ns", ""),
        Column::ns("late_ns", "late by itself"),
        Column::share("late_share", "of its time"),
        Column::ns("wait_ns", "waited"),
        Column::ns("message_wait_ns", ""),
        Column::ns("span_ns", ""),
        Column::ns("unjudged_ns", ""),
    ]);
    let mut table = Table::new("ranks", "Ranks", &columns);
    table.rows_in_text = 32;
    let mut rows: Vec<(&ProcessId, &RankTotals)> = matching.rank_totals.iter().collect();
    rows.sort_by_key(|(id, rank_totals)| {
        (
            std::cmp::Reverse(rank_totals.blame_ns),
            model.process(**id).order(),
        )
    });
    for (&id, rank_totals) in rows {
        let mut cells = rank_cells(model, id).to_vec();
        let span_ns = rank_totals.span_ns();
        let share = (span_ns > 0).then(|| rank_totals.late_ns as f64 / span_ns as f64);
        cells.extend::<[Cell; 10]>([
            rank_totals.operations.into(),
            rank_totals.last.into(),
            rank_totals.blame_ns.into(),
            rank_totals.inherited_ns.into(),
            rank_totals.late_ns.into(),
            share.into(),
            rank_totals.wait_ns.into(),
            rank_totals.message_wait_ns.into(),
            span_ns.into(),
            rank_totals.unjudged_ns.into(),
        ]);
        table.push(cells);
    }
    table
}

fn stragglers_table(
    matching: &Matching,
    stragglers: &[Straggler],
    proxy_waits: &ProxyWaits,
    model: &Model,
) -> Table {
    let mut columns = unseen(&RANK, &[]);
    columns.extend([
        Column::ns("late_ns", ""),
        Column::ns("blame_ns", ""),
        Column::plain("arrivals", ""),
        Column::ns("longest_ns", ""),
        Column::ns("longest_at_ns", ""),
        Column::plain("cause", ""),
        Column::plain("place", ""),
        Column::ns("explained_ns", ""),
        Column::line("words", "late"),
    ]);
    let mut table = Table::new("stragglers", "Ranks that made others wait", &columns);
    for straggler in stragglers {
        let cause = straggler.cause();
        let rank_totals = &matching.rank_totals[&straggler.process];
        let mut cells = rank_cells(model, straggler.process).to_vec();
        let known = cause.as_ref();
        let longest = straggler.longest(matching);
        cells.extend::<[Cell; 9]>([
            rank_totals.late_ns.into(),
            rank_totals.blame_ns.into(),
            (straggler.arrivals.len() as u64).into(),
            longest.map(|(start_ns, end_ns)| end_ns - start_ns).into(),
            longest.map(|(start_ns, _)| start_ns).into(),
            known.map(|cause| cause.key).into(),
            known.and_then(|cause| cause.place.clone()).into(),
            known.map(|cause| cause.explained_ns).into(),
            story(matching, straggler, proxy_waits, model).into(),
        ]);
        table.push(cells);
    }
    table
}

/// What a person has to know of a rank that was late.
fn story(
    matching: &Matching,
    straggler: &Straggler,
    proxy_waits: &ProxyWaits,
    model: &Model,
) -> String {
    let id = straggler.process;
    let rank_totals = &matching.rank_totals[&id];
    let host = match model.process(id).host.as_str() {
        "" => String::new(),
        host => format!(" on {host}"),
    };
    let share = 100.0 * rank_totals.late_ns as f64 / rank_totals.span_ns().max(1) as f64;
    let mut text = format!(
        "{}{host} was late by itself by {} ({share:.1} % of its time), and made the others wait {}",
        rank_name(model, id),
        duration_text(rank_totals.late_ns as f64),
        duration_text(rank_totals.blame_ns as f64),
    );
    if rank_totals.last > 0 {
        text.push_str(&format!(
            ": it came last for certain in {} of {} operations",
            rank_totals.last, rank_totals.operations
        ));
    }
    let of_these: u64 = straggler.arrivals.iter().map(|late| late.late_ns).sum();
    match straggler.arrivals.len() {
        0 => text.push_str(". In all this time"),
        arrivals => text.push_str(&format!(
            ". Before its {arrivals} latest arrivals ({} in all)",
            duration_text(of_these as f64)
        )),
    }
    match straggler.cause() {
        Some(cause) => {
            text.push_str(&format!(" {}", cause.words));
            let others: Vec<String> = straggler
                .others
                .iter()
                .map(|&id| rank_name(model, id))
                .collect();
            if !others.is_empty() {
                text.push_str(&format!(", compared with {}", others.join(", ")));
            }
        }
        None => text.push_str(" nothing was looked at"),
    }
    if let Some(words) = proxy_waits.words(id, model) {
        text.push_str(&format!(". {words}"));
    }
    text
}

/// Per operation, type, bytes and communicator.
fn operations(matching: &Matching, model: &Model) -> Table {
    let columns = [
        Column::plain("operation", "operation"),
        Column::plain("data_type", "type"),
        Column::bytes("message_bytes", "bytes"),
        Column::plain("communicator", "communicator"),
        Column::plain("ranks", "ranks"),
        Column::plain("count", "count"),
        Column::plain("inconclusive", ""),
        Column::ns("latency_min_mean_ns", "latency"),
        Column::ns("latency_last_mean_ns", "first to last"),
        Column::ns("start_skew_mean_ns", "skew"),
        Column::ns("start_skew_max_ns", "largest"),
        Column::ns("end_skew_mean_ns", "at end"),
        Column::ns("wait_ns", "waited"),
        Column::ns("blame_ns", ""),
        Column::plain("apart", ""),
        bandwidth("algorithm_bytes_per_s", "algorithm"),
        bandwidth("bus_bytes_per_s", "bus"),
        Column::plain("algorithm_gb_s", ""),
        Column::plain("algorithm_gib_s", ""),
        Column::plain("bus_gb_s", ""),
        Column::plain("bus_gib_s", ""),
    ];
    let mut table = Table::new("operations", "Operations", &columns);
    table.rows_in_text = 30;
    let mut totals: Vec<_> = matching.totals.iter().collect();
    totals.sort_by_key(|((group, shape), _)| {
        let shape = &matching.shapes[*shape];
        let texts = [shape.name, shape.data_type].map(|id| model.text(id));
        (*group, texts, shape.bytes, shape.ranks)
    });
    for (&(group, shape), total) in totals {
        let (group, shape) = (&matching.groups[group], &matching.shapes[shape]);
        let ranks = shape.ranks.unwrap_or(group.members.len() as u64);
        let operation = Operation::of(model.text(shape.name));
        let bytes = operation.whole_bytes(shape.bytes, ranks);
        let mean = |sum_ns: u64| sum_ns as f64 / total.count as f64;
        let seconds = mean(total.latency_min_ns) / 1e9;
        let algorithm = (seconds > 0.0 && bytes > 0).then(|| bytes as f64 / seconds);
        let bus = algorithm.map(|speed| speed * operation.bus_factor(ranks));
        const GIB: f64 = (1_u64 << 30) as f64;
        table.push(vec![
            model.text(shape.name).into(),
            model.text(shape.data_type).into(),
            shape.known_bytes().into(),
            group.name().into(),
            ranks.into(),
            total.count.into(),
            total.inconclusive.into(),
            mean(total.latency_min_ns).into(),
            mean(total.latency_last_ns).into(),
            mean(total.start_skew_ns).into(),
            total.max_start_skew_ns.into(),
            mean(total.end_skew_ns).into(),
            total.wait_ns.into(),
            total.blame_ns.into(),
            total.apart.into(),
            algorithm.into(),
            bus.into(),
            algorithm.map(|speed| speed / 1e9).into(),
            algorithm.map(|speed| speed / GIB).into(),
            bus.map(|speed| speed / 1e9).into(),
            bus.map(|speed| speed / GIB).into(),
        ]);
    }
    table
}

fn instances(matching: &Matching, model: &Model) -> Table {
    let columns = [
        Column::plain("communicator", "communicator"),
        Column::plain("sequence", "number"),
        Column::plain("operation", "operation"),
        Column::bytes("message_bytes", "bytes"),
        Column::ns("start_skew_ns", "skew"),
        Column::ns("end_skew_ns", "at end"),
        Column::ns("latency_min_ns", "latency"),
        Column::ns("latency_last_ns", ""),
        Column::plain("last_rank", "last"),
        Column::plain("last_host", ""),
        Column::plain("last_process", ""),
        Column::ns("start_ns", ""),
        Column::ns("late_ns", "behind the next"),
        Column::ns("blame_ns", "by itself"),
        Column::ns("uncertainty_ns", "uncertainty"),
        Column::plain("verdict", "who was last"),
    ];
    let mut table = Table::new("instances", "The largest skews", &columns);
    table.rows_in_text = 10;
    for one in &matching.instances {
        let (group, shape) = (&matching.groups[one.group], &matching.shapes[one.shape]);
        let last = model.process(one.last);
        table.push(vec![
            group.name().into(),
            one.sequence.into(),
            model.text(shape.name).into(),
            shape.known_bytes().into(),
            one.start_skew_ns.into(),
            one.end_skew_ns.into(),
            one.latency_min_ns.into(),
            one.latency_last_ns.into(),
            last.rank.into(),
            last.host.as_str().into(),
            last.pid.into(),
            one.start_ns.into(),
            one.late_ns.into(),
            one.blame_ns.into(),
            one.uncertainty_ns.into(),
            (if one.is_certain() {
                "certain"
            } else {
                "inconclusive"
            })
            .into(),
        ]);
    }
    table
}

fn communicators(matching: &Matching) -> Table {
    let columns = [
        Column::plain("communicator", "communicator"),
        Column::plain("ranks", "ranks"),
        Column::plain("present", "in traces"),
        Column::plain("matched", "matched"),
        Column::plain("incomplete", "incomplete"),
        Column::plain("contradictory", "contradictory"),
        Column::plain("fused", ""),
        Column::plain("by_call", ""),
    ];
    let mut table = Table::new("communicators", "Communicators", &columns);
    table.rows_in_text = 20;
    for group in &matching.groups {
        let totals = &group.totals;
        table.push(vec![
            group.name().into(),
            totals.ranks.into(),
            (group.members.len() as u64).into(),
            totals.matched.into(),
            totals.incomplete.into(),
            totals.contradictory.into(),
            totals.fused.into(),
            totals.by_call.into(),
        ]);
    }
    table
}

fn clocks(matching: &Matching) -> Table {
    let columns = [
        Column::plain("host", "clock of"),
        Column::ns("uncertainty_ns", "uncertainty"),
        Column::plain("collectives", "by collectives"),
        Column::ns("wall_clock_off_ns", "wall clock off"),
    ];
    let mut table = Table::new("clocks", "Clocks of hosts, against the first", &columns);
    table.rows_in_text = 20;
    for host in matching
        .clocks
        .hosts
        .iter()
        .filter(|_| matching.clocks.hosts.len() > 1)
    {
        table.push(vec![
            host.name.as_str().into(),
            host.uncertainty_ns.into(),
            host.collectives.into(),
            host.off_ns().into(),
        ]);
    }
    table
}

impl Group {
    /// What it is called in tables.
    pub(super) fn name(&self) -> String {
        match self.lane {
            Lane::Everyone => self.communicator.clone(),
            Lane::With(..) => {
                let ranks: Vec<String> = self
                    .members
                    .iter()
                    .map(|member| {
                        member
                            .rank
                            .map_or_else(|| "?".to_owned(), |rank| rank.to_string())
                    })
                    .collect();
                format!("{} messages of {}", self.communicator, ranks.join(" and "))
            }
        }
    }
}
