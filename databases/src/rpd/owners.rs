//! Whose operations without a call are: those of the process that used the GPU, if that was one.

use std::collections::HashMap;

use rusqlite::Connection;

/// Processes by what they used alone.
#[derive(Debug, Default)]
pub(super) struct Owners {
    of_gpus: HashMap<i64, i64>,
    /// The only process of the file.
    only: Option<i64>,
    are_told_apart: bool,
}

const ONLY: &str = "select min(pid), max(pid) from rocpd_api where typeof(pid) = 'integer'";
const HAS_ORPHANS: &str = "select exists (select 1 from rocpd_op where id not in
    (select l.op_id from rocpd_api_ops l join rocpd_api a on a.id = l.api_id where l.op_id is not null))";
const OF_GPUS: &str =
    "select o.gpuId, min(a.pid), max(a.pid) from rocpd_api_ops l join rocpd_op o on o.id = l.op_id
    join rocpd_api a on a.id = l.api_id group by o.gpuId";

impl Owners {
    /// Reads them; what is no table of this kind has none.
    pub(super) fn read(database: &Connection) -> Self {
        Self::found(database).unwrap_or_default()
    }

    fn found(database: &Connection) -> rusqlite::Result<Self> {
        let same = |(least, most): (Option<i64>, Option<i64>)| least.filter(|_| least == most);
        let pids = database.query_row(ONLY, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let only = same(pids);
        let are_several = pids.0.is_some() && only.is_none();
        let mut owners = Self {
            only,
            are_told_apart: are_several && database.query_row(HAS_ORPHANS, [], |row| row.get(0))?,
            ..Self::default()
        };
        if owners.are_told_apart {
            let mut statement = database.prepare(OF_GPUS)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                // What is no number says nothing, and nothing of the others.
                let number = |column| row.get::<_, Option<i64>>(column).ok().flatten();
                if let Some(gpu) = number(0)
                    && let Some(pid) = same((number(1), number(2)))
                {
                    owners.of_gpus.insert(gpu, pid);
                }
            }
        }
        Ok(owners)
    }

    /// Whether the file has calls of several processes, and operations without a call.
    pub(super) fn are_told_apart(&self) -> bool {
        self.are_told_apart
    }

    /// The process of an operation of a GPU; `None` if it cannot be told.
    pub(super) fn of(&self, gpu: i64) -> Option<i64> {
        self.of_gpus.get(&gpu).copied().or(self.only)
    }
}
