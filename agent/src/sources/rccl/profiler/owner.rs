//! Whose events are: those of neighbours have addresses that mean nothing here.

use std::ffi::c_void;
use std::sync::atomic::Ordering;

use crate::sources::rccl::profiler::abi::{Description, kind};
use crate::sources::rccl::profiler::contexts::{self, Context};
use crate::sources::rccl::profiler::handles;
use crate::sys;

/// Whose an event is.
#[derive(Debug, Clone, Copy)]
pub enum Owner {
    /// A communicator's of this process.
    Known(&'static Context),
    /// Another process's, for which a proxy of this one moves data (PXN): the context is an address there, and an operation's parent is.
    Neighbour,
    /// A communicator's for which there was no room: the context is the user's plug-in's own.
    Crowded,
}

impl Owner {
    /// That of an event that begins.
    pub fn of(context: *mut c_void, description: &Description) -> Self {
        let known = match description.kind() {
            kind::PROXY_OP if description.proxy_op().pid.cast_unsigned() != sys::getpid() => {
                return Owner::Neighbour;
            }
            // They have their operation's context, and do not say whose that is.
            kind::PROXY_STEP | kind::NET_PLUGIN => match handles::find(description.parent()) {
                Some(parent) => match contexts::at(parent.context.load(Ordering::Relaxed)) {
                    Some(known) => return Owner::Known(known),
                    None => return Owner::Neighbour,
                },
                None => contexts::find(context),
            },
            _ => contexts::find(context),
        };
        known.map_or(Owner::Crowded, Owner::Known)
    }
}
