//! What proxies waited for, as a table.

use std::cmp::Reverse;

use crate::measure::job::collectives::job::proxy_waits::{ClassProxies, ProxyWaits};
use crate::measure::job::collectives::read::operations::Shape;
use crate::measure::job::collectives::read::proxies::Wait;
use crate::table::{Cell, Column, Table};
use rsys_traces::model::{Model, ProcessId};

impl ProxyWaits {
    /// Per class of operations: what part of their time proxies waited for what. `None` where none were recorded.
    pub(super) fn table(&self, shapes: &[Shape], model: &Model) -> Option<Table> {
        let columns = [
            Column::plain("operation", "operation"),
            Column::plain("data_type", "type"),
            Column::bytes("message_bytes", "bytes"),
            Column::plain("communicator", "communicator"),
            Column::plain("ranks", "ranks"),
            Column::ns("work_ns", "at work"),
            Column::ns("gpu_wait_ns", ""),
            Column::share("gpu_wait_share", "for GPU"),
            Column::ns("peer_wait_ns", ""),
            Column::share("peer_wait_share", "for peer"),
            Column::ns("network_ns", ""),
            Column::share("network_share", "in network"),
            Column::ns("data_wait_ns", ""),
            Column::share("data_wait_share", "for data"),
            Column::ns("flush_ns", ""),
            Column::share("flush_share", "flush"),
            Column::plain("slowest_peer", ""),
            Column::plain("slowest", "slowest peer"),
            Column::ns("slowest_wait_ns", "waited for it"),
        ];
        let title = "What RCCL's proxies waited for: parts of the time in which they were at work";
        let mut table = Table::new("proxies", title, &columns);
        table.rows_in_text = 30;
        for class in &self.classes {
            let shape = &shapes[class.shape];
            let data_type = model.text(shape.data_type);
            // Operations without a call have a name alone.
            let is_known = !data_type.is_empty();
            let mut cells: Vec<Cell> = vec![
                model.text(shape.name).into(),
                is_known.then_some(data_type).into(),
                is_known.then_some(shape.bytes).into(),
                class.communicator.as_str().into(),
                class.ranks.into(),
                class.work_ns.into(),
            ];
            for wait in Wait::ALL {
                let wait_ns = class.waits_ns[wait as usize];
                cells.push(wait_ns.into());
                cells.push((wait_ns as f64 / class.work_ns as f64).into());
            }
            let slowest = class.slowest();
            cells.extend::<[Cell; 3]>([
                slowest.map(|((peer, _), _)| peer).into(),
                slowest
                    .map(|((peer, process), _)| place(model, peer, process))
                    .into(),
                slowest.map(|(_, ns)| ns).into(),
            ]);
            table.push(cells);
        }
        (!table.rows.is_empty()).then_some(table)
    }
}

/// A rank of a communicator as the job calls it, and its host. A process without a rank may have several.
fn place(model: &Model, peer: u64, id: Option<ProcessId>) -> String {
    let own = match id.and_then(|id| model.process(id).rank) {
        Some(rank) => format!("rank {rank}"),
        None => format!("rank {peer} of the communicator"),
    };
    match id.map_or("", |id| model.process(id).host.as_str()) {
        "" => own,
        host => format!("{own} on {host}"),
    }
}

impl ClassProxies {
    /// The rank that was waited for longest, and how long.
    fn slowest(&self) -> Option<((u64, Option<ProcessId>), u64)> {
        let peers = self.peers_ns.iter().filter(|(_, ns)| **ns > 0);
        let (peer, ns) = peers.max_by_key(|((peer, _), ns)| (**ns, Reverse(*peer)))?;
        Some((*peer, *ns))
    }
}
