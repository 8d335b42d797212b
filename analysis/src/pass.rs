//! One pass over the inputs: readers make batches, questions consume them.

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;

use crate::measure::Measure;
use crate::model::{Batch, Kinds, Model, Notice};
use crate::read::{self, BytesRead};

/// Batches under way between the thread that reads and the one that measures.
const BATCHES: usize = 4;

/// Reads all files, in the order given, and shows every batch to every question. Files that cannot be read are in the model's notices.
///
/// Reading is done by a thread of its own. What comes of it does not depend on that.
pub fn pass(files: &[PathBuf], measures: &mut [Box<dyn Measure>]) -> Model {
    pass_counted(files, measures, &BytesRead::default())
}

/// [`pass()`], which tells others meanwhile how much of the files was read.
pub fn pass_counted(
    files: &[PathBuf],
    measures: &mut [Box<dyn Measure>],
    read_bytes: &BytesRead,
) -> Model {
    let (filled, to_measure) = sync_channel::<Batch>(BATCHES);
    let (emptied, to_fill) = sync_channel::<Batch>(BATCHES + 2);
    let kinds = measures
        .iter()
        .fold(Kinds::default(), |kinds, measure| kinds.or(measure.needs()));
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let mut model = Model::default();
            for file in files {
                let mut reader = match read::open_counted(file, kinds, read_bytes) {
                    Ok(reader) => reader,
                    Err(error) => {
                        model.notices.push(unreadable(file, &error));
                        continue;
                    }
                };
                loop {
                    let mut batch = to_fill.try_recv().unwrap_or_default();
                    batch.clear();
                    let goes_on = reader.read(&mut model, &mut batch);
                    // Whoever measures ends only with its channel.
                    if filled.send(batch).is_err() || !goes_on {
                        break;
                    }
                }
            }
            model
        });
        while let Ok(batch) = to_measure.recv() {
            for measure in measures.iter_mut() {
                measure.take(&batch);
            }
            // Enough of them are under way when there is no room.
            emptied.try_send(batch).ok();
        }
        match reading.join() {
            Ok(model) => model,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn unreadable(file: &std::path::Path, error: &read::OpenError) -> Notice {
    use std::error::Error;

    let text = match error.source() {
        Some(source) => format!("cannot be read: {source}"),
        None => "neither a Perfetto trace in protobuf form nor JSON of a profiler".to_owned(),
    };
    Notice {
        file: file.display().to_string(),
        offset: None,
        text,
    }
}
