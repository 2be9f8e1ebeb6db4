//! Reads the notes of the step hook, which are separate from events: lines of a word and a process
//! (`workloads/python/README.md`).

use std::{collections::BTreeSet, fs, path::Path};

use schema::spec::Notes;

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
    }
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
        for (text, has_pytorch, unheard, alternating) in [
            ("", false, 0, false),
            ("loaded 7\n", true, 0, false),
            ("loaded 7\nloaded 8\nunheard 8\nunheard 8\nunheard 9\n", true, 2, false),
            ("loaded 7\nalternating 7\n", true, 0, true),
            ("unheard\nunheardly 3\nfuture 4\n", false, 0, false),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(read(file.path()), Notes { has_pytorch, unheard, alternating }, "{text:?}");
        }
        assert!(take(file.path()) != Notes::default() || !file.path().exists());
        assert_eq!(read(file.path()), Notes::default());
    }
}
