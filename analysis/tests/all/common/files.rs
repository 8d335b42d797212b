//! Files for tests, and what readers make of them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rsys_traces::model::{Batch, Kinds, Model};
use rsys_traces::read;

/// A folder that goes away with its owner.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rsys-analysis-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// All records of a file.
pub fn read(path: &Path) -> (Model, Batch) {
    let (mut model, mut batch) = (Model::default(), Batch::default());
    let mut reader = read::open(path, Kinds::ALL).unwrap();
    while reader.read(&mut model, &mut batch) {}
    (model, batch)
}
