//! What ranks do in each pattern.

use super::program::{
    Collective, Communicator, Kind, Message, PREPARE, Place, Program, Step, computes_in, place_of,
};
use super::{MpiCause, MpiJob, Pattern};
use crate::random::{random, varied};

/// The communicator of all ranks.
const WORLD: usize = 0;
/// Blocks of a sweep.
const BLOCKS: u64 = 4;
/// What the first rank does for each other one.
const PREPARE_NS: u64 = 500;
/// Directions on a grid: the one and the other of each dimension.
const DIRECTIONS: [(i64, i64); 4] = [(-1, 0), (1, 0), (0, -1), (0, 1)];

/// What all ranks of a job do.
pub(crate) fn program(job: &MpiJob) -> Program {
    let mut communicators = vec![Communicator::new((0..job.ranks).collect())];
    let grid = Grid::of(job);
    if job.pattern == Pattern::Transpose {
        communicators.extend((0..grid.height).map(|row| Communicator::new(grid.row(row))));
        communicators.extend((0..grid.width).map(|column| Communicator::new(grid.column(column))));
    } else if job.own_communicator {
        communicators.push(Communicator::new(reordered(job)));
    }
    let steps = (0..job.ranks).map(|rank| {
        let mut writer = Writer {
            job,
            grid,
            rank,
            steps: Vec::new(),
        };
        writer.write();
        writer.steps
    });
    Program {
        steps: steps.collect(),
        communicators,
    }
}

/// Ranks in another order.
fn reordered(job: &MpiJob) -> Vec<u64> {
    let mut ranks: Vec<u64> = (0..job.ranks).collect();
    match job.seed % 3 {
        0 => ranks.reverse(),
        1 => ranks.rotate_left(1),
        _ => ranks.sort_by_key(|rank| random([job.seed, *rank, 0, 0, 21])),
    }
    ranks
}

/// Ranks on a grid.
#[derive(Debug, Clone, Copy)]
struct Grid {
    width: u64,
    height: u64,
    is_periodic: bool,
}

impl Grid {
    /// As square as can be.
    fn of(job: &MpiJob) -> Self {
        let ranks = job.ranks.max(1);
        let heights = (1..=ranks).take_while(|height| height * height <= ranks);
        let height = heights
            .filter(|height| ranks.is_multiple_of(*height))
            .max()
            .unwrap_or(1);
        Self {
            width: ranks / height,
            height,
            is_periodic: job.seed.is_multiple_of(2),
        }
    }

    fn row(&self, row: u64) -> Vec<u64> {
        (0..self.width).map(|x| row * self.width + x).collect()
    }

    fn column(&self, column: u64) -> Vec<u64> {
        (0..self.height).map(|y| y * self.width + column).collect()
    }

    /// The rank one further in a direction; none behind the edge.
    fn neighbour(&self, rank: u64, (right, down): (i64, i64), is_periodic: bool) -> Option<u64> {
        let (width, height) = (self.width.cast_signed(), self.height.cast_signed());
        let rank = rank.cast_signed();
        let (x, y) = (rank % width + right, rank / width + down);
        let is_inside = (0..width).contains(&x) && (0..height).contains(&y);
        let found = y.rem_euclid(height) * width + x.rem_euclid(width);
        let is_there = (is_inside || is_periodic) && found != rank;
        is_there.then_some(found.cast_unsigned())
    }
}

/// Writes down what a rank does.
struct Writer<'j> {
    job: &'j MpiJob,
    grid: Grid,
    rank: u64,
    steps: Vec<Step>,
}

impl Writer<'_> {
    fn write(&mut self) {
        if self.job.own_communicator || self.job.pattern == Pattern::Transpose {
            let makes = if self.job.pattern == Pattern::Transpose {
                2
            } else {
                1
            };
            for _ in 0..makes {
                self.collective(Kind::Split, WORLD, 0);
            }
        }
        for iteration in 0..self.job.iterations {
            match self.job.pattern {
                Pattern::Chain => self.chain(iteration),
                Pattern::Pipeline => self.pipeline(iteration),
                Pattern::Ring => self.ring(iteration),
                Pattern::HaloWaitall => self.halo_waitall(iteration),
                Pattern::HaloSendrecv => self.halo_sendrecv(iteration),
                Pattern::Wavefront => self.wavefront(iteration),
                Pattern::MasterWorker => self.master_worker(iteration),
                Pattern::HaloAllreduce => {
                    self.halo_waitall(iteration);
                    self.collective(Kind::Allreduce, WORLD, 8);
                }
                Pattern::PythonAllreduce => self.python_allreduce(iteration),
                Pattern::BulkSynchronous => {
                    self.computes(iteration, (0, 1));
                    if iteration.is_multiple_of(2) {
                        self.collective(Kind::Allgather, self.own(), self.job.bytes);
                    }
                    self.collective(Kind::Barrier, WORLD, 0);
                }
                Pattern::ReduceBcast => {
                    self.computes(iteration, (0, 1));
                    self.collective(Kind::Reduce, self.own(), self.job.bytes);
                    self.only_first(PREPARE_NS);
                    self.collective(Kind::Bcast, self.own(), self.job.bytes);
                }
                Pattern::ScatterGather => {
                    self.only_first(PREPARE_NS);
                    self.collective(Kind::Scatter, WORLD, self.job.bytes);
                    self.computes(iteration, (0, 1));
                    self.collective(Kind::Gather, WORLD, self.job.bytes);
                }
                Pattern::Transpose => self.transpose(iteration),
            }
        }
    }

    /// The communicator by which messages go.
    fn own(&self) -> usize {
        usize::from(self.job.own_communicator)
    }

    fn message(&self, peer: u64, tag: u64) -> Message {
        Message {
            peer,
            tag,
            bytes: self.job.bytes,
            communicator: self.own(),
        }
    }

    fn collective(&mut self, kind: Kind, communicator: usize, bytes: u64) {
        self.steps.push(Step::Collective(Collective {
            kind,
            root: 0,
            bytes,
            communicator,
        }));
    }

    fn run(&mut self, place: Place, ns: u64, preempted_ns: u64) {
        self.steps.push(Step::Run {
            place,
            ns,
            preempted_ns,
        });
    }

    /// The first rank does something that the others do not.
    fn only_first(&mut self, ns: u64) {
        if self.rank == 0 {
            self.run(PREPARE, ns, 0);
        }
    }

    /// Computes a part of what an iteration has to compute, with what goes wrong.
    fn computes(&mut self, iteration: u64, (part, parts): (u64, u64)) {
        let job = self.job;
        let places = |what| [job.seed, self.rank, iteration, part, what];
        // Processors are not quite alike, and the kernel interrupts now and then.
        let own = 997 + random([job.seed, self.rank, 0, 0, 12]) % 7;
        let base_ns = job.compute_ns / parts * own / 1000;
        let mut ns = varied(base_ns, job.jitter, places(11));
        if random(places(13)).is_multiple_of(200) {
            ns += random(places(14)) % (job.compute_ns / 20).max(1);
        }
        let place = computes_in(job.pattern);
        let fault = job.fault.filter(|fault| fault.rank == self.rank);
        let part_ns = fault.map_or(0, |fault| fault.part_ns(iteration, (part, parts)));
        let Some(fault) = fault.filter(|_| part_ns > 0) else {
            return self.run(place, ns, 0);
        };
        let at = place_of(fault, job.pattern);
        match fault.cause {
            MpiCause::SlowCode => self.run(place, ns + part_ns, 0),
            MpiCause::Preempted => self.run(place, ns + part_ns, part_ns),
            MpiCause::ExtraCode => {
                self.run(place, ns, 0);
                self.run(at, part_ns, 0);
            }
            MpiCause::Sleep => {
                self.run(place, ns, 0);
                self.steps.push(Step::Sleep {
                    place: at,
                    ns: part_ns,
                });
            }
            MpiCause::Lock | MpiCause::RecordedLock => {
                self.steps.push(Step::Lock {
                    place: at,
                    ns: part_ns,
                    is_recorded: fault.cause == MpiCause::RecordedLock,
                });
                self.run(place, ns, 0);
            }
        }
    }

    fn chain(&mut self, iteration: u64) {
        let last = self.job.ranks - 1;
        let before = self.rank.checked_sub(1).unwrap_or(last);
        // The first rank has the token when the job begins.
        if self.rank > 0 || iteration > 0 {
            self.steps.push(Step::Recv(self.message(before, 5)));
        }
        self.computes(iteration, (0, 1));
        let is_end = self.rank == last && iteration + 1 == self.job.iterations;
        if !is_end {
            let next = (self.rank + 1) % self.job.ranks;
            self.steps.push(Step::Send(self.message(next, 5)));
        }
    }

    fn pipeline(&mut self, iteration: u64) {
        if let Some(before) = self.rank.checked_sub(1) {
            self.steps.push(Step::Recv(self.message(before, 3)));
        }
        self.computes(iteration, (0, 1));
        if self.rank + 1 < self.job.ranks {
            self.steps.push(Step::Send(self.message(self.rank + 1, 3)));
        }
    }

    fn ring(&mut self, iteration: u64) {
        let ranks = self.job.ranks;
        let to = self.message((self.rank + 1) % ranks, 9);
        let from = self.message((self.rank + ranks - 1) % ranks, 9);
        self.computes(iteration, (0, 1));
        if self.job.seed.is_multiple_of(2) {
            self.steps.push(Step::Sendrecv {
                sent: Some(to),
                received: Some(from),
            });
        } else {
            self.steps
                .extend([Step::Isend(to), Step::Recv(from), Step::Wait]);
        }
    }

    fn halo_waitall(&mut self, iteration: u64) {
        let neighbours = (0..).zip(DIRECTIONS).filter_map(|(number, direction)| {
            let is_periodic = self.grid.is_periodic;
            let found = self.grid.neighbour(self.rank, direction, is_periodic)?;
            Some((number, found))
        });
        let neighbours: Vec<(u64, u64)> = neighbours.collect();
        self.computes(iteration, (0, 2));
        for &(number, neighbour) in &neighbours {
            // What it sends has gone the other way.
            let message = self.message(neighbour, number ^ 1);
            self.steps.push(Step::Irecv(message));
        }
        for &(number, neighbour) in &neighbours {
            self.steps
                .push(Step::Isend(self.message(neighbour, number)));
        }
        self.computes(iteration, (1, 2));
        self.steps.push(Step::Waitall);
    }

    fn halo_sendrecv(&mut self, iteration: u64) {
        self.computes(iteration, (0, 1));
        for (number, (right, down)) in (0..).zip(DIRECTIONS) {
            let neighbour = |direction| {
                let is_periodic = self.grid.is_periodic;
                let found = self.grid.neighbour(self.rank, direction, is_periodic)?;
                Some(self.message(found, number))
            };
            let sent = neighbour((right, down));
            let received = neighbour((-right, -down));
            self.steps.push(Step::Sendrecv { sent, received });
        }
    }

    fn wavefront(&mut self, iteration: u64) {
        let (right, down) = [(1, 1), (-1, 1), (-1, -1), (1, -1)][(iteration % 4) as usize];
        let next = [(right, 0), (0, down)];
        for block in 0..BLOCKS {
            for (tag, (right, down)) in (0..).zip(next) {
                let before = self.grid.neighbour(self.rank, (-right, -down), false);
                if let Some(before) = before {
                    self.steps.push(Step::Recv(self.message(before, tag)));
                }
            }
            self.computes(iteration, (block, BLOCKS));
            for (tag, direction) in (0..).zip(next) {
                let behind = self.grid.neighbour(self.rank, direction, false);
                if let Some(behind) = behind {
                    self.steps.push(Step::Send(self.message(behind, tag)));
                }
            }
        }
    }

    fn master_worker(&mut self, iteration: u64) {
        if self.rank > 0 {
            self.steps.push(Step::Recv(self.message(0, 1)));
            self.computes(iteration, (0, 1));
            self.steps.push(Step::Send(self.message(0, 2)));
            return;
        }
        for worker in 1..self.job.ranks {
            self.run(PREPARE, PREPARE_NS, 0);
            self.steps.push(Step::Send(self.message(worker, 1)));
        }
        for worker in 1..self.job.ranks {
            self.steps.push(Step::Recv(self.message(worker, 2)));
        }
    }

    fn python_allreduce(&mut self, iteration: u64) {
        self.computes(iteration, (0, 1));
        if self.rank > 0 {
            self.steps.push(Step::Send(self.message(0, 32_766)));
        } else {
            for other in 1..self.job.ranks {
                self.steps.push(Step::Recv(self.message(other, 32_766)));
                self.run(PREPARE, PREPARE_NS, 0);
            }
        }
        self.collective(Kind::Bcast, self.own(), 4);
        self.collective(Kind::Bcast, self.own(), self.job.bytes);
    }

    fn transpose(&mut self, iteration: u64) {
        let (x, y) = (self.rank % self.grid.width, self.rank / self.grid.width);
        self.computes(iteration, (0, 2));
        self.collective(Kind::Alltoall, 1 + y as usize, self.job.bytes);
        self.computes(iteration, (1, 2));
        let column = 1 + self.grid.height + x;
        self.collective(Kind::Alltoall, column as usize, self.job.bytes);
    }
}
