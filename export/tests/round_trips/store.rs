//! What files hold, as the tables of records have it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Once;

use rsys_analysis::measure::Measure;
use rsys_analysis::{answers, pass_in_order};
use rsys_databases::OPENER;
use rsys_export::{Format, Output, Selection};
use rsys_tables::catalog::table;
use rsys_tables::record::Recorder;
use rsys_tables::store::Store;
use rsys_tables::view::{Values, View};
use rsys_traces::read::{self, BytesRead};

/// A row, each cell as a text that tells nothing from the empty text.
pub type Row = Vec<String>;

/// A folder that goes when it is dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let parent = match memory.is_dir() {
            true => memory.to_owned(),
            false => std::env::temp_dir(),
        };
        let path = parent.join(format!("rsys-round-trips-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// The tables of what files hold.
pub struct Tables {
    pub file: File,
    pub view: View,
    pub notices: Vec<String>,
}

impl Tables {
    /// Reads files, whatever their format.
    pub fn read(files: &[PathBuf]) -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| read::understand(&[OPENER]));
        let [file, scratch] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        let (recorder, written) = Recorder::new(file.try_clone().unwrap(), scratch, "").unwrap();
        let mut measures: [Box<dyn Measure>; 1] = [Box::new(recorder)];
        let model = pass_in_order(files, &mut measures, &BytesRead::default(), 1);
        answers(&mut measures, &model, "", 1);
        written.take().unwrap();
        let notices = model.notices.iter();
        Self {
            view: View::new(Store::open(file.try_clone().unwrap()).unwrap()),
            notices: notices.map(|notice| notice.text.clone()).collect(),
            file,
        }
    }

    /// Writes them in a format.
    pub fn export(&self, format: Format, is_each_rank: bool, selection: &Selection, to: &Path) {
        let output = Output {
            format,
            is_each_rank,
            is_packed: false,
        };
        if to.is_dir() {
            fs::remove_dir_all(to).unwrap();
        } else if to.exists() {
            fs::remove_file(to).unwrap();
        }
        let scratch = tempfile::tempfile().unwrap();
        let store = self.file.try_clone().unwrap();
        rsys_export::export(store, scratch, selection, output, to).unwrap();
    }

    /// Some columns of all rows of a table.
    pub fn rows(&self, name: &str, columns: &[&str]) -> Vec<Row> {
        let table = table(name).unwrap();
        let mut rows = Vec::new();
        for (part, &count) in self.view.parts(table).iter().enumerate() {
            let values = columns.iter().map(|name| {
                let (_, column) = table.column(name).unwrap();
                self.view.column(table, column, part).unwrap()
            });
            let values: Vec<Values> = values.collect();
            for row in 0..count as usize {
                rows.push(values.iter().map(|values| cell(values, row)).collect());
            }
        }
        rows
    }
}

fn cell(values: &Values, row: usize) -> String {
    match values {
        Values::Integers(values, valid) if valid.is_valid(row) => values[row].to_string(),
        Values::Unsigned(values, valid) if valid.is_valid(row) => values[row].to_string(),
        Values::Numbers(values, valid) if valid.is_valid(row) => values[row].to_string(),
        Values::Texts(ids, words) => words.get(ids[row]).unwrap_or("").to_owned(),
        _ => String::new(),
    }
}

/// Fails with the first rows that are different, whatever their order.
pub fn same(what: &str, mut expected: Vec<Row>, mut found: Vec<Row>) {
    expected.sort();
    found.sort();
    if expected == found {
        return;
    }
    let missing = expected.iter().find(|row| {
        let count = |rows: &[Row]| rows.iter().filter(|one| one == row).count();
        count(&expected) > count(&found)
    });
    let added = found.iter().find(|row| {
        let count = |rows: &[Row]| rows.iter().filter(|one| one == row).count();
        count(&found) > count(&expected)
    });
    panic!(
        "{what}: {} rows expected, {} found\n missing {missing:?}\n instead {added:?}",
        expected.len(),
        found.len()
    );
}
