//! The folder in which a run was begun. Its programs, its data and its catalogs have names that count from there.

use std::{collections::BTreeMap, fs, io::Read as _, path::Path};

use serde::{Deserialize, Serialize};

/// The part of a program that its digest is made of, with its length. A command may name a file of data first, which is longer than
/// any program.
const PROGRAM_BYTES: u64 = 64 << 20;

/// The folder of a run and the programs in it, as digests, so that a record names no path that the user did not type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folder {
    /// Digest of the path, together with the start of the run.
    pub blake3: String,
    /// Digest of the length and the beginning of the first file that a command names: the program itself, or the script of an
    /// interpreter. Its name is the word of the command, joined to the folder of the program if it has one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, String>,
    /// The source tree of the programs at the beginning of the run. Absent if git finds no source tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_tree: Option<SourceTree>,
    /// The source trees of programs whose definitions name their folders, by these folders as typed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub source_trees: BTreeMap<String, SourceTree>,
}

/// A source tree under git.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceTree {
    pub revision: String,
    /// Whether files that git tracks differ from the revision.
    pub dirty: bool,
}

impl Folder {
    /// The working folder of this process, for a run that began at `started_utc` and has these commands, each with the folder in which
    /// it runs. `None` if the working folder has no path any more.
    pub fn current<'a>(
        started_utc: &str,
        commands: impl Iterator<Item = (&'a [String], &'a Path)>,
    ) -> Option<Folder> {
        let path = std::env::current_dir().ok()?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(started_utc.as_bytes()).update(&[0]).update(path.as_os_str().as_encoded_bytes());
        let program = |(argv, cwd): (&[String], &Path)| {
            argv.iter().find_map(|word| {
                let path = cwd.join(word);
                Some((path.to_str()?.to_owned(), file_digest(&path, PROGRAM_BYTES)?))
            })
        };
        Some(Folder {
            blake3: hasher.finalize().to_hex().to_string(),
            programs: commands.filter_map(program).collect(),
            source_tree: None,
            source_trees: BTreeMap::new(),
        })
    }

    /// The first program whose file has changed or is gone since then.
    pub fn changed_program<'a>(&'a self, now: &Folder) -> Option<&'a str> {
        let changed = |(word, digest): &(&String, &String)| now.programs.get(*word) != Some(*digest);
        self.programs.iter().find(changed).map(|(word, _)| word.as_str())
    }
}

/// The digest of a file that a command names, from its length and its first bytes up to `limit`; `None` if it names none. A device or
/// a pipe is not read.
fn file_digest(path: &Path, limit: u64) -> Option<String> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = fs::File::open(path).ok()?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&file.metadata().ok()?.len().to_le_bytes());
    let (mut file, mut part) = (file.take(limit), vec![0; 1 << 16]);
    loop {
        match file.read(&mut part).ok()? {
            0 => return Some(hasher.finalize().to_hex().to_string()),
            read => drop(hasher.update(&part[..read])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_content_and_a_long_file_by_its_beginning_and_its_length() {
        let dir = crate::folder_for_many_files();
        let path = dir.path().join("program");
        let digest = |text: &str, bytes: u64| {
            fs::write(&path, text).unwrap();
            fs::File::options().write(true).open(&path).unwrap().set_len(bytes).unwrap();
            file_digest(&path, 8).unwrap()
        };
        let one = digest("one", 3);
        assert_eq!((digest("one", 3), digest("two", 3) == one, digest("one", 4) == one), (one, false, false));
        assert_ne!(digest("one", 9), digest("one", 10));
        for no_file in [dir.path(), Path::new("/dev/null"), Path::new("no such file")] {
            assert_eq!(file_digest(no_file, 8), None, "{no_file:?}");
        }
    }
}
