//! The operations of all ranks, put together from what was found of each file.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::joining::{Joining, Lane, Member, OfProcess, Operations, Shape};
use super::part::{OfProxies, Part};
use super::proxies::OfClass;
use super::records::Rows;
use super::study::with_segments;
use super::{Collectives, Found};
use crate::containers::packed_rows::RowFile;
use crate::measure::job::mpi;
use rsys_traces::model::{Model, TextId};

/// What was found of a process.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) members: Vec<(Member, Rows)>,
    pub(super) nameless: u64,
    pub(super) strangers: u64,
    pub(super) of_proxies: Vec<OfClass>,
    pub(super) mpi: mpi::Calls,
}

/// Operations of all processes, by the ids of a model.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    pub(super) processes: Vec<Gathered>,
    pub(super) shapes: Vec<Shape>,
    shape_ids: HashMap<Shape, u64>,
    /// The coarsest grain of the times.
    pub(super) tick_ns: u64,
    /// Calls of MPI that are in no part.
    pub(super) without_mpi: u64,
    /// Where rows are kept, if not in memory.
    pub(super) file: Option<Arc<RowFile>>,
}

impl Gathering {
    /// Communicators of which some rank is there several times: of jobs that were copied, or whose names recur by chance. Folders tell their ranks apart.
    pub(super) fn copied(&self) -> HashSet<TextId> {
        let of_processes = self.processes.iter();
        let members = of_processes.flat_map(|of_process| of_process.members.iter());
        let mut known = HashSet::new();
        members
            .filter(|(member, _)| !known.insert(*member))
            .map(|(member, _)| member.communicator)
            .collect()
    }

    /// What was joined by the ids of its own model.
    pub(super) fn of(mut joining: Joining, model: &Model) -> Self {
        joining.finish();
        let calls = joining.mpi.finish(model);
        let count = joining.processes.len().max(calls.len());
        joining.processes.resize_with(count, OfProcess::default);
        let calls = calls
            .into_iter()
            .chain(std::iter::repeat_with(mpi::Calls::default));
        let processes = joining
            .processes
            .into_iter()
            .zip(calls)
            .map(|(of_process, mpi)| {
                let OfProcess {
                    members,
                    nameless,
                    strangers,
                    of_proxies,
                    ..
                } = of_process;
                Gathered {
                    members: with_segments(members.into_iter().collect(), |info| info),
                    nameless,
                    strangers,
                    of_proxies,
                    mpi,
                }
            });
        Self {
            processes: processes.collect(),
            shapes: joining.shapes,
            shape_ids: HashMap::new(),
            tick_ns: 1,
            without_mpi: 0,
            file: None,
        }
    }

    fn shape(&mut self, shape: Shape) -> u64 {
        shape.id(&mut self.shapes, &mut self.shape_ids)
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
        let (shapes, members, proxies, file) = {
            let (gathering, model) = &mut *self.lock();
            let mut shape = |shape: &super::part::Shape| {
                gathering.shape(Shape {
                    name: model.texts.intern(&shape.name),
                    data_type: model.texts.intern(&shape.data_type),
                    bytes: shape.bytes,
                    ranks: shape.ranks,
                })
            };
            let shapes: Vec<u64> = part.shapes.iter().map(&mut shape).collect();
            let proxies = part.of_processes.iter().map(|of_process| {
                let classes = of_process.of_proxies.iter();
                classes.map(|class| shape(&class.shape)).collect()
            });
            let proxies: Vec<Vec<u64>> = proxies.collect();
            let proxies = part.of_processes.iter().zip(proxies);
            let proxies = proxies.map(|(of_process, shapes)| {
                let classes = of_process.of_proxies.iter().zip(shapes);
                classes
                    .map(|(class, shape)| {
                        let communicator = model.texts.intern(&class.communicator);
                        (communicator, shape, class.times.clone())
                    })
                    .collect()
            });
            let proxies: Vec<Vec<OfClass>> = proxies.collect();
            let mut member = |one: &super::part::Member| Member {
                communicator: model.texts.intern(&one.communicator),
                rank: one.rank,
                lane: match &one.with {
                    Some((peer, name)) => Lane::With(*peer, model.texts.intern(name)),
                    None => Lane::Everyone,
                },
            };
            let members = part.of_processes.iter();
            let members =
                members.map(|of_process| of_process.members.iter().map(&mut member).collect());
            let members: Vec<Vec<Member>> = members.collect();
            (shapes, members, proxies, gathering.file.clone())
        };
        let renamed = |info: u64| {
            let shape = shapes.get((info >> 2) as usize).copied().unwrap_or(0);
            shape << 2 | info & 3
        };
        let calls = part
            .mpi
            .into_iter()
            .chain(std::iter::repeat_with(mpi::Calls::default));
        let found = part
            .of_processes
            .into_iter()
            .zip(members)
            .zip(proxies)
            .zip(calls);
        let found = found.map(|(((of_process, members), of_proxies), mpi)| {
            let rows = of_process
                .members
                .into_iter()
                .map(|one| Operations::of(one.rows));
            let mut members = with_segments(members.into_iter().zip(rows).collect(), renamed);
            if let Some(file) = &file {
                let rows = members.iter_mut().map(|(_, rows)| rows);
                rows.for_each(|rows| rows.move_to(file));
            }
            Gathered {
                members,
                nameless: of_process.nameless,
                strangers: of_process.strangers,
                of_proxies,
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

    /// All were added: what is found of them, and their processes.
    #[must_use]
    pub fn find(self) -> (Found, Model) {
        let (gathering, mut model) = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Which file was read first is chance.
        model.notices.sort();
        (Found::of(gathering, &model), model)
    }
}

impl Part {
    /// What was found of a file, of which `model` is.
    pub(crate) fn of(collectives: &Collectives, model: Model) -> Self {
        let mut joining = collectives.take_joining();
        joining.finish();
        let mpi = joining.mpi.finish(&model);
        let text = |id: TextId| model.text(id).to_owned();
        let shape = |shape: &Shape| super::part::Shape {
            name: text(shape.name),
            data_type: text(shape.data_type),
            bytes: shape.bytes,
            ranks: shape.ranks,
        };
        let shapes: Vec<_> = joining.shapes.iter().map(shape).collect();
        joining
            .processes
            .resize_with(model.processes.len(), OfProcess::default);
        let of_processes = joining.processes.into_iter().map(|of_process| {
            let mut members: Vec<_> = of_process.members.into_iter().collect();
            members.sort_by_key(|(member, _)| member.order(&model));
            let members = members.into_iter().map(|(member, operations)| {
                let mut rows = operations.rows;
                rows.sort();
                super::part::Member {
                    communicator: text(member.communicator),
                    rank: member.rank,
                    with: match member.lane {
                        Lane::Everyone => None,
                        Lane::With(peer, name) => Some((peer, text(name))),
                    },
                    rows,
                }
            });
            let of_proxies = of_process.of_proxies.into_iter();
            let of_proxies = of_proxies.map(|(communicator, shape, times)| OfProxies {
                communicator: text(communicator),
                shape: shapes[shape as usize].clone(),
                times,
            });
            let mut of_proxies: Vec<OfProxies> = of_proxies.collect();
            of_proxies.sort_by(OfProxies::order);
            super::part::OfProcess {
                members: members.collect(),
                of_proxies,
                nameless: of_process.nameless,
                strangers: of_process.strangers,
            }
        });
        let of_processes = of_processes.collect();
        Self {
            of_processes,
            shapes,
            tick_ns: 1,
            mpi,
            without_mpi: 0,
            processes: model.processes,
            notices: model.notices,
        }
    }
}
