//! The calls of the chosen processes, as the writers of databases want them.

use rsys_traces::model::Communication;

use crate::Failure;
use crate::rows::{ByWord, Word, each};
use crate::run::{Process, Run};

/// A call.
pub(crate) struct Call<'r> {
    /// Its number in the tables.
    pub id: u64,
    pub process_id: u64,
    pub process: &'r Process,
    /// The thread that made it, if that is known.
    pub thread: Option<u64>,
    pub start_ns: u64,
    pub end_ns: u64,
    pub name: Word<'r>,
    /// What [`runtime_of`] says.
    pub runtime: &'static str,
    pub correlation: Option<u64>,
    pub bytes: Option<u64>,
    pub address: Option<u64>,
    /// The handle of the stream that it is about.
    pub stream: Option<u64>,
    /// The row of the stack from which it was made.
    pub stack: usize,
}

/// Whose function a call is of: `HIP`, `HSA`, `RCCL`, `MPI`, `SHMEM` or `UCX`. The tables have those of the last three among those of `RCCL`.
pub(crate) fn runtime_of(runtime: &str, name: &str) -> &'static str {
    match runtime {
        "HIP" => "HIP",
        "HSA" => "HSA",
        _ => match Communication::of(name) {
            Communication::Rccl => "RCCL",
            Communication::Mpi => "MPI",
            Communication::Shmem => "SHMEM",
            Communication::Ucx => "UCX",
        },
    }
}

/// Hands each call that is written to `take`, in the order of the tables.
///
/// # Errors
/// When the store is damaged, or `take` fails.
pub(crate) fn each_call(
    run: &Run<'_>,
    mut take: impl FnMut(Call<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    const COLUMNS: [&str; 12] = [
        "call_id",
        "process_id",
        "thread",
        "start_ns",
        "end_ns",
        "name",
        "runtime",
        "correlation",
        "bytes",
        "address",
        "stream",
        "stack_id",
    ];
    let mut runtimes = ByWord::default();
    each(run.view, "calls", &COLUMNS, |row| {
        let (process_id, start_ns, end_ns) = (row.number(1), row.number(3), row.number(4));
        let runtime = row.text(6);
        let process = run.during(process_id, start_ns, end_ns);
        let Some(process) = process.filter(|_| run.only.has_calls_of(runtime)) else {
            return Ok(());
        };
        take(Call {
            id: row.number(0),
            process_id,
            process,
            thread: row.known(2),
            start_ns,
            end_ns,
            name: row.word(5),
            runtime: match runtime {
                "HIP" => "HIP",
                "HSA" => "HSA",
                _ => runtimes.get((), row.word(5), |name| {
                    Ok::<_, Failure>(runtime_of(runtime, name))
                })?,
            },
            correlation: row.known(7),
            bytes: row.known(8),
            address: row.known(9),
            // The tables have it plus one.
            stream: row.known(10).map(|handle| handle.saturating_sub(1)),
            stack: row.number(11) as usize,
        })
    })
}

/// The three sizes of a grid as the tables have it; 0 where it says none.
pub(crate) fn grid(text: &str) -> [u64; 3] {
    let words = text.split(|letter: char| !letter.is_ascii_digit());
    let mut sizes = words.filter_map(|word| word.parse().ok());
    [(); 3].map(|()| sizes.next().unwrap_or(0))
}
