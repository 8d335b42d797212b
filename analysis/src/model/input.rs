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
pub(crate) fn is_input(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    INPUTS.iter().any(|part| name.contains(part))
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
