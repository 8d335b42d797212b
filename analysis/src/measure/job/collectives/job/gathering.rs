//! The operations of all ranks, put together from what was found of each file.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::records::Rows;
use super::segments::with_segments;
use crate::containers::packed_rows::RowFile;
use crate::measure::job::collectives::read::operations::{Member, Shape};
use crate::measure::job::collectives::read::part::{Part, ProcessPart};
use crate::measure::job::collectives::read::proxies::ClassTimes;
use crate::measure::job::mpi;
use rsys_traces::model::{CollectiveCall, Model, TextId};

/// What was found of a process.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) members: Vec<(Member, Rows)>,
    pub(crate) unidentified: u64,
    pub(crate) unmatched_kernels: u64,
    pub(crate) proxy_times: Vec<ClassTimes>,
    pub(crate) mpi: mpi::Calls,
}

/// Operations of all processes, by the ids of a model.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    pub(crate) processes: Vec<Gathered>,
    pub(crate) shapes: Vec<Shape>,
    shape_ids: HashMap<Shape, u64>,
    /// The coarsest grain of the times.
    pub(crate) tick_ns: u64,
    /// Calls of MPI that are in no part.
    pub(crate) without_mpi: u64,
    /// Where rows are kept, if not in memory.
    pub(crate) file: Option<Arc<RowFile>>,
}

impl Gathering {
    /// Communicators of which some rank is there several times: of jobs that were copied, or whose names recur by chance. Folders tell their ranks apart.
    pub(crate) fn copied(&self) -> HashSet<TextId> {
        let of_processes = self.processes.iter();
        let members = of_processes.flat_map(|of_process| of_process.members.iter());
        let mut known = HashSet::new();
        members
            .filter(|(member, _)| !known.insert(*member))
            .map(|(member, _)| member.communicator)
            .collect()
    }

    /// The place of a shape, whose names the model gets.
    fn shape(&mut self, shape: &Shape<String>, model: &mut Model) -> u64 {
        let shape = shape.with_names(|name| model.texts.intern(name));
        shape.id(&mut self.shapes, &mut self.shape_ids)
    }

    /// The members and the times of proxies of a process, with names of the model.
    fn names(&mut self, part: &ProcessPart, model: &mut Model) -> (Vec<Member>, Vec<ClassTimes>) {
        let members = part.members.iter();
        let members = members.map(|(one, _)| one.with_names(|name| model.texts.intern(name)));
        let members = members.collect();
        let proxy_times = part.proxy_times.iter().map(|class| {
            let shape = self.shape(&class.shape, model);
            let communicator = model.texts.intern(&class.communicator);
            (communicator, shape, class.times.clone())
        });
        (members, proxy_times.collect())
    }
}

/// A job whose files are read one by one. Several threads may add to it.
#[derive(Debug, Default)]
pub struct Job(Mutex<(Gathering, Model)>);

impl Job {
    fn lock(&self) -> MutexGuard<'_, (Gathering, Model)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job whose operations are kept in this file, so that memory grows with ranks and hardly with operations. The file is empty, and no one else uses it.
    #[must_use]
    pub fn in_file(file: File) -> Self {
        Self(Mutex::new((
            Gathering {
                file: Some(Arc::new(RowFile::new(file))),
                ..Gathering::default()
            },
            Model::default(),
        )))
    }

    /// Adds what was found of a file.
    pub fn add(&self, part: Part) {
        // Names have their ids before rows are packed, which takes the time.
        let (shapes, names, file) = {
            let (gathering, model) = &mut *self.lock();
            let shapes = part.shapes.iter();
            let shapes: Vec<u64> = shapes.map(|shape| gathering.shape(shape, model)).collect();
            let of_processes = part.of_processes.iter();
            let names = of_processes.map(|of_process| gathering.names(of_process, model));
            let names: Vec<(Vec<Member>, Vec<ClassTimes>)> = names.collect();
            (shapes, names, gathering.file.clone())
        };
        let renamed = |info: u64| {
            let shape = shapes.get((info >> 2) as usize).copied().unwrap_or(0);
            shape << 2 | info & 3
        };
        let calls = part
            .mpi
            .into_iter()
            .chain(std::iter::repeat_with(mpi::Calls::default));
        let found = part.of_processes.into_iter().zip(names).zip(calls);
        let found = found.map(|((of_process, (members, proxy_times)), mpi)| {
            let is_by_order =
                |one: &(Member<String>, _)| CollectiveCall::is_by_order(&one.0.communicator);
            let is_by_order = of_process.members.iter().any(is_by_order);
            let rows = of_process.members.into_iter().map(|(_, rows)| rows);
            let mut members = with_segments(members.into_iter().zip(rows), renamed, is_by_order);
            if let Some(file) = &file {
                let rows = members.iter_mut().map(|(_, rows)| rows);
                rows.for_each(|rows| rows.move_to(file));
            }
            Gathered {
                members,
                unidentified: of_process.unidentified,
                unmatched_kernels: of_process.unmatched_kernels,
                proxy_times,
                mpi,
            }
        });
        let found: Vec<Gathered> = found.collect();
        let (gathering, model) = &mut *self.lock();
        // Each process of the model has its place, also one without operations.
        let count = model.processes.len();
        gathering.processes.resize_with(count, Gathered::default);
        gathering.processes.extend(found);
        gathering.tick_ns = gathering.tick_ns.max(part.tick_ns);
        gathering.without_mpi += part.without_mpi;
        let calls = gathering.processes.iter_mut().map(|one| &mut one.mpi);
        mpi::limit(calls.collect());
        model.processes.extend(part.processes);
        model.notices.extend(part.notices);
    }

    /// All were added: the operations, and their processes.
    pub(crate) fn into_gathered(self) -> (Gathering, Model) {
        let (gathering, mut model) = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Which file was read first is chance.
        model.notices.sort();
        (gathering, model)
    }
}
