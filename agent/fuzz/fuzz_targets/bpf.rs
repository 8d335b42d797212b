//! Seccomp filters of any bytes: what is said by the number alone is what the kernel would say whatever the arguments are.

#![no_main]

use libfuzzer_sys::fuzz_target;

// The agent is a library for programs, not for crates: its file is compiled here.
#[path = "../../src/lifecycle/bpf.rs"]
#[allow(dead_code, reason = "the agent uses more of it")]
mod bpf;
#[path = "../../src/lifecycle/bpf_reference.rs"]
mod reference;

/// The part of a returned value that says what happens.
const ACTION: u32 = 0xffff_0000;

fuzz_target!(|input: (u32, [u32; 14], Vec<u64>)| {
    let (number, arguments, code) = input;
    let said = bpf::verdict(code.len(), |at| code.get(at).copied(), i64::from(number));
    let mut data = [0; 16];
    data[..2].copy_from_slice(&[number, bpf::AUDIT_ARCH]);
    data[2..].copy_from_slice(&arguments);
    if let (Some(said), Some(returned)) = (said, reference::run(&code, &data)) {
        assert_eq!(said, returned & ACTION);
    }
});
