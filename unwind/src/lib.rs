//! Walks one stack: registers and a guarded memory reader in, return addresses out.
