//! What traces do not hold, in one note instead of one for each question.

/// What notes on missing records say behind their subject.
const VERBS: [&str; 2] = [" is in these traces", " are in these traces"];
/// The subject that says most.
const FIRST: &str = "no operation of a GPU";
/// Fewer notes than this stay as they are.
const MANY: usize = 3;

/// The subject of a note that says that something is not there, and what is said of it.
fn parts(note: &str) -> Option<(&str, &str, &str)> {
    let note_begins = note.starts_with("no ") || note.starts_with("neither ");
    let verb = VERBS.iter().find(|verb| note.contains(**verb))?;
    let (subject, further) = note.split_once(verb)?;
    note_begins.then_some((subject, verb, further))
}

/// What is said where nothing was recorded.
pub(crate) const NOTHING: &str = "nothing was recorded in what could be read";

/// The notes on traces that hold nothing: what is wrong with the files, and no list of what else is not there.
pub(crate) fn of_nothing(notes: Vec<String>) -> Vec<String> {
    let notes = notes.into_iter().filter(|note| parts(note).is_none());
    notes.chain([NOTHING.to_owned()]).collect()
}

/// The notes, those on what is not there as one.
pub(crate) fn folded(notes: Vec<String>) -> Vec<String> {
    let (mut absent, mut others): (Vec<String>, Vec<String>) =
        notes.into_iter().partition(|note| parts(note).is_some());
    absent.sort_by_key(|note| !note.starts_with(FIRST));
    absent.dedup();
    if absent.len() < MANY {
        others.extend(absent);
        return others;
    }
    let mut absent = absent.iter().filter_map(|note| parts(note));
    let Some((subject, verb, further)) = absent.next() else {
        return others;
    };
    // What is neither of two is not there by itself either.
    let rest: Vec<String> = absent
        .filter(|(subject, ..)| !subject.starts_with("neither "))
        .map(|(subject, _, further)| {
            let further = further.trim_start_matches([':', ';', ' ', '(']);
            match further.trim_end_matches(')') {
                "" => subject.to_owned(),
                further => format!("{subject} ({further})"),
            }
        })
        .collect();
    others.push(format!(
        "{subject}{verb}{further}; also {}",
        rest.join(", ")
    ));
    others
}

#[cfg(test)]
mod tests {
    use super::{NOTHING, folded, of_nothing};

    #[test]
    fn what_is_not_there_is_one_note() {
        let notes = [
            "no kernel is in these traces",
            "2 of the job's 4 ranks are not in these traces: 0, 1",
            "no samples of waiting threads are in these traces: rsys-sample takes them with --realtime",
            "no operation of a GPU is in these traces",
            "no call of RCCL is in these traces (rsys-sample records them with -I rccl)",
        ];
        let told = folded(notes.map(str::to_owned).to_vec());
        let expected = [
            "2 of the job's 4 ranks are not in these traces: 0, 1",
            "no operation of a GPU is in these traces; also no kernel, no samples of waiting threads (rsys-sample takes them with \
             --realtime), no call of RCCL (rsys-sample records them with -I rccl)",
        ];
        assert_eq!(told, expected);
        let of_files = ["t.proto: byte 7: damaged", "no kernel is in these traces"];
        let told = of_nothing(of_files.map(str::to_owned).to_vec());
        assert_eq!(told, ["t.proto: byte 7: damaged", NOTHING]);
        let few = ["no kernel is in these traces".to_owned()];
        assert_eq!(folded(few.to_vec()), few);
    }
}
