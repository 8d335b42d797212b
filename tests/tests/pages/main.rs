//! What a browser shows of a run.

mod gpu_view;
mod html;
mod view;
