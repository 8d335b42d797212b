//! Calls, and the stacks from which they were made.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::nodes::Nodes;
use super::texts::{EMPTY, Texts};
use crate::Failure;
use crate::calls::each_call;
use crate::links::{LaunchStacks, WrittenCalls};
use crate::rows::ByWord;
use crate::run::Run;
use crate::sqlite::Bulk;
use crate::stacks::Stacks;

/// The columns of calls.
pub(super) const API: [&str; 9] = [
    "id",
    "pid",
    "tid",
    "start",
    "end",
    "apiName_id",
    "category_id",
    "domain_id",
    "args_id",
];

/// Writes calls with the stacks from which they were made. Their ids are those of the tables plus one.
pub(super) fn write_calls(
    run: &Run<'_>,
    nodes: &Nodes<'_>,
    bulk: &Bulk,
    texts: &mut Texts<'_>,
) -> Result<WrittenCalls, Failure> {
    let stacks = Stacks::read(run.view)?;
    let launches = LaunchStacks::read(run)?;
    let mut launches = launches.finder();
    let mut add = bulk.rows("rocpd_api", API)?;
    let frames = ["api_ptr_id", "depth", "name_id"];
    let mut add_frame = bulk.rows("rocpd_stackframe", frames)?;
    let mut written = WrittenCalls::default();
    let mut words = String::new();
    let (mut names, mut functions) = (ByWord::default(), ByWord::default());
    let mut domains = BTreeMap::new();
    each_call(run, |call| {
        words.clear();
        let arguments = [
            ("size", call.bytes),
            ("ptr", call.address),
            ("stream", call.stream),
        ];
        for (key, value) in arguments {
            let Some(value) = value else { continue };
            let between = if words.is_empty() { "" } else { " | " };
            // A `String` takes whatever is written.
            write!(words, "{between}{key}=0x{value:x}").ok();
        }
        // Numbers begin at 1.
        let id = call.id + 1;
        let name = names.get((), call.name, |name| texts.name(name))?;
        let domain = match domains.get(call.runtime) {
            Some(&domain) => domain,
            None => {
                let domain = texts.name(&call.runtime.to_lowercase())?;
                domains.insert(call.runtime, domain);
                domain
            }
        };
        add.put([
            id.into(),
            nodes.pid(call.process).into(),
            call.thread.unwrap_or(0).into(),
            call.start_ns.into(),
            call.end_ns.into(),
            name.into(),
            EMPTY.into(),
            domain.into(),
            texts.arguments(&words)?.into(),
        ])?;
        written.add(call.id);
        let stack = launches.of(call.stack as u64, call.id) as usize;
        for (depth, row) in stacks.rows(stack).enumerate() {
            let function = functions.get((), stacks.function(row), |name| texts.name(name))?;
            add_frame.put([id.into(), depth.into(), function.into()])?;
        }
        Ok(())
    })?;
    add.finish();
    add_frame.finish();
    Ok(written)
}
