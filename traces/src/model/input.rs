//! Names of what brings data into a program.

/// Parts of names, in small letters, of what loads and prepares the data of the next step: in PyTorch, Lightning, TensorFlow, JAX, DALI and WebDataset.
const INPUTS: [&str; 15] = [
    "dataloader",
    "data_loader",
    "dataset",
    "datapipe",
    "data_iter",
    "dataiter",
    "next_batch",
    "get_batch",
    "load_batch",
    "batch_loader",
    "fetch_next",
    "_next_data",
    "_dataloading",
    "iteratorgetnext",
    "prefetcher",
];

/// Whether a range, operator or function is about the input of a program.
#[must_use]
pub fn is_input(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    INPUTS.iter().any(|part| name.contains(part))
}

/// Parts of names, in small letters, of what hands out the next piece of data.
const LOADERS: [&str; 7] = [
    "enumerate(dataloader)",
    "torch/utils/data/",
    "(dataloader.py",
    "dataloader_next",
    "_next_data",
    "_dataloading",
    "iteratorgetnext",
];

/// Whether a range, operator or function hands out data, whatever it calls for that.
#[must_use]
pub fn is_loader(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    LOADERS.iter().any(|part| name.contains(part))
}

/// Beginnings of the names of functions that a loader calls for itself: PyTorch's own, what is built in, and those of Python's library that wait.
const OF_LOADERS: [&str; 9] = [
    "torch/",
    "<",
    "queue.py",
    "threading.py",
    "selectors.py",
    "socket.py",
    "pickle.py",
    "multiprocessing/",
    "concurrent/",
];

/// Whether a loader calls a function for itself; others are the program's.
#[must_use]
pub fn is_of_loader(function: &str) -> bool {
    OF_LOADERS.iter().any(|start| function.starts_with(start)) || is_loader(function)
}

#[cfg(test)]
mod tests {
    use super::is_input;

    #[test]
    fn names_say_what_loads() {
        for (name, expected) in [
            (
                "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                true,
            ),
            (
                "[pl][profile][_TrainingEpochLoop].train_dataloader_next",
                true,
            ),
            ("get_batch (train.py:12)", true),
            ("aten::linear", false),
            ("step (train.py:12)", false),
        ] {
            assert_eq!(is_input(name), expected, "{name}");
        }
    }
}
