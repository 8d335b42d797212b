//! Questions about ranks, for which the files of some of them are read a second time.

use std::path::PathBuf;

use crate::measure::Measure;
use crate::measure::collectives::Collectives;
use crate::model::Model;
use crate::pass::pass_counted;
use crate::read::BytesRead;
use crate::table::Answer;

/// Who made the others wait in collectives, and why; with the model of all files. `read_bytes` tells others how much of the first reading is done.
pub fn collectives(files: &[PathBuf], read_bytes: &BytesRead, jobs: usize) -> (Answer, Model) {
    let collectives = Collectives::default();
    let measures = &mut [Box::new(collectives.clone()) as Box<dyn Measure>];
    let model = pass_counted(files, measures, read_bytes, jobs);
    let mut found = collectives.find(&model);
    for look in found.looks(&model) {
        let measures = &mut [Box::new(look.doings.clone()) as Box<dyn Measure>];
        let file = std::slice::from_ref(&look.file);
        let of_file = pass_counted(file, measures, &BytesRead::default(), jobs);
        found.learn(&look, &of_file);
    }
    (found.answer(&model), model)
}
