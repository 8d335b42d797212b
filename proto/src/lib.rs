//! Perfetto traces: encoding and decoding.
