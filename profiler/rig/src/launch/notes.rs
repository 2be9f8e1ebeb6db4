//! Reads the notes of the step hook, which are separate from events: lines of a word, a process, and for one word a number
//! (`workloads/python/README.md`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use record::launch_end::Notes;

/// The notes so far. Without a file there are none.
pub(super) fn read(file: &Path) -> Notes {
    let text = fs::read_to_string(file).unwrap_or_default();
    let processes = |word: &str| -> BTreeSet<&str> {
        text.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).collect()
    };
    Notes {
        has_pytorch: !processes("loaded").is_empty(),
        unheard: processes("unheard").len() as u32,
        alternating: !processes("alternating").is_empty(),
        uncounted_calls: uncounted_calls(&text),
        ungated: !processes("ungated").is_empty(),
        lacks_hook: false,
        cleanup_failed: None,
    }
}

/// The last number of each process, summed.
fn uncounted_calls(text: &str) -> Option<u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("uncounted ")?.split_once(' '));
    let numbers: BTreeMap<&str, u64> =
        lines.filter_map(|(process, calls)| Some((process, calls.parse().ok()?))).collect();
    numbers.into_values().reduce(u64::saturating_add)
}

/// The notes of a launch that has ended. The file is removed.
pub(super) fn take(file: &Path) -> Notes {
    let notes = read(file);
    let _ = fs::remove_file(file);
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_counted_once_whatever_else_the_file_says() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let loaded = || Notes { has_pytorch: true, ..Notes::default() };
        for (text, notes) in [
            ("", Notes::default()),
            ("loaded 7\n", loaded()),
            ("loaded 7\nloaded 8\nunheard 8\nunheard 8\nunheard 9\n", Notes { unheard: 2, ..loaded() }),
            ("loaded 7\nungated 7\n", Notes { ungated: true, ..loaded() }),
            ("loaded 7\nalternating 7\n", Notes { alternating: true, ..loaded() }),
            (
                "loaded 7\nalternating 7\nuncounted 7 2\nuncounted 8 5\nuncounted 7 60\n",
                Notes { alternating: true, uncounted_calls: Some(65), ..loaded() },
            ),
            ("unheard\nunheardly 3\nfuture 4\nuncounted 7\nuncounted 7 x\n", Notes::default()),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(read(file.path()), notes, "{text:?}");
        }
        assert!(take(file.path()) != Notes::default() || !file.path().exists());
        assert_eq!(read(file.path()), Notes::default());
    }
}
