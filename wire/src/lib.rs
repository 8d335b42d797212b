//! What agent and sampler agree on: records, shared-memory rings, the session hand-shake.
