//! Names of what brings data into a program.

/// Parts of names, in small letters, of what loads and prepares the data of the next step: in PyTorch with torchdata,
/// Lightning, TensorFlow (tf.data), JAX, DALI, WebDataset, FFCV, Mosaic's streaming and Hugging Face's datasets, whose names have `dataset` in them.
const INPUTS: [&str; 25] = [
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
    "iterator_ops.py",
    "iterator::root",
    "iterator::prefetch",
    "tf_data",
    "dali::",
    "nvidia/dali/",
    "webdataset",
    "ffcv/",
    "streaming/base/",
    "torchdata",
];

/// Whether a range, operator or function is about the input of a program.
#[must_use]
pub fn is_input(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    INPUTS.iter().any(|part| name.contains(part))
}

/// Parts of names, in small letters, of what hands out the next piece of data.
const LOADERS: [&str; 16] = [
    "enumerate(dataloader)",
    "torch/utils/data/",
    "(dataloader.py",
    "dataloader_next",
    "_next_data",
    "_dataloading",
    "iteratorgetnext",
    "iterator_ops.py",
    "iterator::root",
    "nvidia/dali/",
    "dali_generic_iterator",
    "daligenericiterator",
    "webdataset/",
    "ffcv/loader/",
    "streaming/base/",
    "torchdata/",
];

/// Whether a range, operator or function hands out data, whatever it calls for that.
#[must_use]
pub fn is_loader(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    LOADERS.iter().any(|part| name.contains(part))
}

/// Beginnings of the names of functions that a loader calls for itself: PyTorch's own, what is built in, and those of Python's library that wait.
const OF_LOADERS: [&str; 18] = [
    "torch/",
    "<",
    "queue.py",
    "threading.py",
    "selectors.py",
    "socket.py",
    "pickle.py",
    "multiprocessing/",
    "concurrent/",
    "torchdata/",
    "tensorflow/",
    "nvidia/",
    "webdataset/",
    "ffcv/",
    "streaming/base/",
    "datasets/arrow_dataset.py",
    "datasets/iterable_dataset.py",
    "datasets/formatting/",
];

/// Whether a loader calls a function for itself; others are the program's.
#[must_use]
pub fn is_of_loader(function: &str) -> bool {
    OF_LOADERS.iter().any(|start| function.starts_with(start)) || is_loader(function)
}

/// Parts of the files and names, in small letters, by which frameworks write a state of the program, and what stands behind them.
const SAVERS: [(&str, &str); 5] = [
    ("torch/serialization.py", ": save"),
    ("torch/distributed/checkpoint/", "save"),
    ("safetensors/", "save"),
    ("torch.save", ""),
    ("torch.distributed.checkpoint.save", ""),
];

/// Whether a range, operator or function writes a state of the program, as `torch.save` does.
#[must_use]
pub fn is_saver(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SAVERS.iter().any(|(file, function)| {
        let behind = name.split_once(file).map(|(_, behind)| behind);
        behind.is_some_and(|behind| behind.contains(function))
    })
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
            (
                "tensorflow/python/data/ops/iterator_ops.py(810): __next__",
                true,
            ),
            ("Iterator::Root::Prefetch", true),
            (
                "nvidia/dali/plugin/pytorch/__init__.py(203): __next__",
                true,
            ),
            ("webdataset/pipeline.py(64): iterator", true),
            ("ffcv/loader/epoch_iterator.py(148): __next__", true),
            ("streaming/base/stream.py(80): __iter__", true),
            ("datasets/arrow_dataset.py(2700): __getitem__", true),
            ("torchdata/nodes/base_node.py(70): __next__", true),
            ("aten::linear", false),
            ("step (train.py:12)", false),
        ] {
            assert_eq!(is_input(name), expected, "{name}");
        }
    }
}
