//! How the agent is linked: every process of a run loads and relocates it.

fn main() {
    // The script itself is watched in any case; this is the script of three packages, and its name means another file in each.
    println!("cargo:rerun-if-changed=Cargo.toml");
    // What the agent refers to by a name that it exports is its own: nothing to look up in all libraries.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    // No change of protection at the start: two mappings and a system call less.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,norelro");
}
