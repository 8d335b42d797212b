//! The answer: stragglers in words, operations, ranks, the largest skews, communicators, clocks.

use super::bandwidths;
use super::causes::told;
use super::joining::Lane;
use super::records::{Conduct, Group, Study};
use super::remarks::more_notes;
use super::replay::{Change, Replay};
use super::stragglers::{Straggler, all_late};
use super::waited::{Waited, name};
use crate::measure::job::mpi;
use crate::measure::job::operation::Operation;
use crate::measure::job::ranks::{RANK, rank_cells};
use crate::measure::{notes, unseen};
use crate::table::{Answer, Cell, Column, Table, Unit};
use rsys_traces::model::{Model, ProcessId};

pub(super) const fn bandwidth(key: &'static str, title: &'static str) -> Column {
    Column {
        key,
        title,
        unit: Unit::Bandwidth,
    }
}

/// All tables.
pub(super) fn answer(
    study: &Study,
    stragglers: &[Straggler],
    waited: &Waited,
    model: &Model,
) -> Answer {
    let mut notes = notes(model);
    more_notes(study, stragglers, model, &mut notes);
    let is_empty = study.groups.is_empty() && study.mpi.is_empty();
    let mut of_mpi = mpi::tables(&study.mpi, model).into_iter();
    let tables = [
        Some(ranks(study, model)),
        Some(stragglers_table(study, stragglers, waited, model)),
        Some(what_if(study, stragglers, model)),
        of_mpi.next(),
        of_mpi.next(),
        Some(operations(study, model)),
        Some(bandwidths::table(study, model)),
        waited.table(&study.shapes, model),
        Some(instances(study, model)),
        Some(communicators(study)),
        Some(clocks(study)),
        Some(study.map.table(study, model)),
    ];
    Answer {
        tables: tables.into_iter().flatten().collect(),
        notes,
        is_empty,
        ..Answer::default()
    }
}

/// All ranks that stand out, where these are several.
pub(crate) const TOGETHER: &str = "all late ranks were like the others";

/// What the job would gain if a straggler were like the other ranks, if all stragglers were, and if all ranks were alike.
fn what_if(study: &Study, stragglers: &[Straggler], model: &Model) -> Table {
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
    let title = match study.mpi.is_empty() {
        true => "What if: from the first collective to the last",
        false => "What if: from the first call of MPI to the last",
    };
    let mut table = Table::new("what_if", title, &columns);
    // Messages and collectives are gone through together.
    let of_mpi = (!study.mpi.is_empty()).then(|| study.mpi.replay());
    let of_collectives = of_mpi.is_none().then(|| Replay::new(study, model));
    let share = of_collectives.as_ref().map(|replay| replay.replayed_share);
    let share = share.unwrap_or_else(|| study.mpi.share());
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
    let mut late = all_late(study, model);
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
            _ => study.conduct.len(),
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
fn ranks(study: &Study, model: &Model) -> Table {
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
    let mut rows: Vec<(&ProcessId, &Conduct)> = study.conduct.iter().collect();
    rows.sort_by_key(|(id, conduct)| {
        (
            std::cmp::Reverse(conduct.blame_ns),
            model.process(**id).order(),
        )
    });
    for (&id, conduct) in rows {
        let mut cells = rank_cells(model, id).to_vec();
        let span_ns = conduct.span_ns();
        let share = (span_ns > 0).then(|| conduct.late_ns as f64 / span_ns as f64);
        cells.extend::<[Cell; 10]>([
            conduct.operations.into(),
            conduct.last.into(),
            conduct.blame_ns.into(),
            conduct.inherited_ns.into(),
            conduct.late_ns.into(),
            share.into(),
            conduct.wait_ns.into(),
            conduct.message_wait_ns.into(),
            span_ns.into(),
            conduct.unjudged_ns.into(),
        ]);
        table.push(cells);
    }
    table
}

fn stragglers_table(
    study: &Study,
    stragglers: &[Straggler],
    waited: &Waited,
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
        let why = straggler.why();
        let conduct = &study.conduct[&straggler.process];
        let mut cells = rank_cells(model, straggler.process).to_vec();
        let why_cells = why.as_ref();
        let longest = straggler.longest(study);
        cells.extend::<[Cell; 9]>([
            conduct.late_ns.into(),
            conduct.blame_ns.into(),
            (straggler.arrivals.len() as u64).into(),
            longest.map(|(start_ns, end_ns)| end_ns - start_ns).into(),
            longest.map(|(start_ns, _)| start_ns).into(),
            why_cells.map(|why| why.cause).into(),
            why_cells.and_then(|why| why.place.clone()).into(),
            why_cells.map(|why| why.explained_ns).into(),
            story(study, straggler, waited, model).into(),
        ]);
        table.push(cells);
    }
    table
}

/// What a person has to know of a rank that was late.
fn story(study: &Study, straggler: &Straggler, waited: &Waited, model: &Model) -> String {
    let id = straggler.process;
    let conduct = &study.conduct[&id];
    let host = match model.process(id).host.as_str() {
        "" => String::new(),
        host => format!(" on {host}"),
    };
    let share = 100.0 * conduct.late_ns as f64 / conduct.span_ns().max(1) as f64;
    let mut text = format!(
        "{}{host} was late by itself by {} ({share:.1} % of its time), and made the others wait {}",
        name(model, id),
        told(conduct.late_ns as f64),
        told(conduct.blame_ns as f64),
    );
    if conduct.last > 0 {
        text.push_str(&format!(
            ": it came last for certain in {} of {} operations",
            conduct.last, conduct.operations
        ));
    }
    let of_these: u64 = straggler.arrivals.iter().map(|late| late.late_ns).sum();
    match straggler.arrivals.len() {
        0 => text.push_str(". In all this time"),
        arrivals => text.push_str(&format!(
            ". Before its {arrivals} latest arrivals ({} in all)",
            told(of_these as f64)
        )),
    }
    match straggler.why() {
        Some(why) => {
            text.push_str(&format!(" {}", why.words));
            let others: Vec<String> = straggler.others.iter().map(|&id| name(model, id)).collect();
            if !others.is_empty() {
                text.push_str(&format!(", compared with {}", others.join(", ")));
            }
        }
        None => text.push_str(" nothing was looked at"),
    }
    if let Some(words) = waited.words(id, model) {
        text.push_str(&format!(". {words}"));
    }
    text
}

/// Per operation, type, bytes and communicator.
fn operations(study: &Study, model: &Model) -> Table {
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
    let mut totals: Vec<_> = study.totals.iter().collect();
    totals.sort_by_key(|((group, shape), _)| {
        let shape = &study.shapes[*shape];
        let texts = [shape.name, shape.data_type].map(|id| model.text(id));
        (*group, texts, shape.bytes, shape.ranks)
    });
    for (&(group, shape), total) in totals {
        let (group, shape) = (&study.groups[group], &study.shapes[shape]);
        let ranks = shape.ranks.unwrap_or(group.parts.len() as u64);
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

fn instances(study: &Study, model: &Model) -> Table {
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
    for one in &study.instances {
        let (group, shape) = (&study.groups[one.group], &study.shapes[one.shape]);
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

fn communicators(study: &Study) -> Table {
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
    for group in &study.groups {
        let totals = &group.totals;
        table.push(vec![
            group.name().into(),
            totals.ranks.into(),
            (group.parts.len() as u64).into(),
            totals.matched.into(),
            totals.incomplete.into(),
            totals.contradictory.into(),
            totals.fused.into(),
            totals.by_call.into(),
        ]);
    }
    table
}

fn clocks(study: &Study) -> Table {
    let columns = [
        Column::plain("host", "clock of"),
        Column::ns("uncertainty_ns", "uncertainty"),
        Column::plain("collectives", "by collectives"),
        Column::ns("wall_clock_off_ns", "wall clock off"),
    ];
    let mut table = Table::new("clocks", "Clocks of hosts, against the first", &columns);
    table.rows_in_text = 20;
    for host in study
        .clocks
        .hosts
        .iter()
        .filter(|_| study.clocks.hosts.len() > 1)
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
                    .parts
                    .iter()
                    .map(|part| {
                        part.rank
                            .map_or_else(|| "?".to_owned(), |rank| rank.to_string())
                    })
                    .collect();
                format!("{} messages of {}", self.communicator, ranks.join(" and "))
            }
        }
    }
}
