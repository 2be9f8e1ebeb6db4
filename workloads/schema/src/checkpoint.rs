//! A checkpoint is a directory with everything that a job needs to continue in another launch, under any
//! plan.
//!
//! It holds `manifest.toml` and the files that the manifest names, with their hashes. The worker decides
//! what is in these files. The first line of the manifest is the hash of its other lines, so that every
//! change of a checkpoint is detected. A checkpoint is written beside its place, with the suffix
//! `.unfinished`, and renamed when all of it is on disk. Under its final name it is therefore always
//! complete.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    plan::Plan,
    run_dir::{RunError, check_format, read, to_toml},
};

const MANIFEST: &str = "manifest.toml";

/// The content of a checkpoint's `manifest.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    pub format: u32,
    /// Name of the workload in the catalog.
    pub workload: String,
    /// Number of trainable parameters.
    pub parameters: u64,
    pub global_batch: u32,
    /// The plan that the checkpoint was written under.
    pub plan: Plan,
    pub ranks: u32,
    /// Steps since the parameters were initialised, in all launches of the job together.
    pub steps: u64,
    /// Samples that all ranks have consumed, which is the position in the data.
    pub samples: u64,
    /// All files except the manifest.
    #[serde(rename = "file")]
    pub files: Vec<CheckpointFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointFile {
    /// Path within the directory.
    pub name: String,
    pub content: Content,
    /// The rank that the file belongs to; absent if it is the same for every rank.
    pub rank: Option<u32>,
    pub bytes: u64,
    /// The hash in hexadecimal digits.
    pub blake3: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Parameters and buffers.
    Model,
    /// State of the optimizer.
    Optimizer,
    /// State of the random generators of a rank.
    Random,
}

/// The checkpoint that a job of the scheduler continues from: `checkpoints/job-<number>.json` of its run.
/// It is written when every rank has reported its part to be on disk. After that, the previous checkpoint
/// is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    pub format: u32,
    /// Path within `checkpoints/`.
    pub name: String,
    /// The launch that wrote it, and the number of its own steps by then.
    pub launch: String,
    pub launch_steps: u64,
    /// Steps of the job, in all launches that led to this checkpoint.
    pub steps: u64,
}

/// A checkpoint that cannot be written or that is invalid.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("{} is there already; a checkpoint is never written over", path.display())]
    Exists { path: PathBuf },
    #[error("{} cannot be the name of a checkpoint", path.display())]
    Unnamed { path: PathBuf },
    #[error("{}: has {found} bytes, and the checkpoint was written with {expected}", file.display())]
    Length { file: PathBuf, expected: u64, found: u64 },
    #[error("{}: was altered since the checkpoint was written: its hash is another", file.display())]
    Altered { file: PathBuf },
    #[error(transparent)]
    File(#[from] RunError),
}

impl Checkpoint {
    /// Reads the manifest of the checkpoint at `dir`. [`Checkpoint::read_file`] checks the other files.
    ///
    /// # Errors
    /// There is no checkpoint, or it was altered. A newer format has an error of its own.
    pub fn read(dir: &Path) -> Result<Checkpoint, CheckpointError> {
        let file = dir.join(MANIFEST);
        let text = read(&file)?;
        let parse = |e: toml::de::Error| RunError::Parse { file: file.clone(), message: e.message().into() };
        let table: toml::Table = text.parse().map_err(parse)?;
        // The format is checked first, because a newer one may be sealed in another way.
        check_format(
            &file,
            table.get("format").and_then(toml::Value::as_integer).map(|n| n as u64),
            crate::FORMAT,
        )?;
        match text.split_once('\n') {
            Some((first, rest)) if first == seal(rest) => Ok(toml::from_str(rest).map_err(parse)?),
            _ => Err(CheckpointError::Altered { file }),
        }
    }

    /// Reads one of the files of the checkpoint at `dir` whole.
    ///
    /// # Errors
    /// The file is missing, or differs from what was written.
    pub fn read_file(dir: &Path, file: &CheckpointFile) -> Result<Vec<u8>, CheckpointError> {
        let path = dir.join(&file.name);
        let io = |cause| RunError::Io { file: path.clone(), cause };
        let found = fs::metadata(&path).map_err(io)?.len();
        if found != file.bytes {
            return Err(CheckpointError::Length { file: path, expected: file.bytes, found });
        }
        let content = fs::read(&path).map_err(io)?;
        if hash(&content) != file.blake3 {
            return Err(CheckpointError::Altered { file: path });
        }
        Ok(content)
    }
}

/// A checkpoint that is being written, by one rank or by several that name the same place.
pub struct Draft {
    place: PathBuf,
    unfinished: PathBuf,
}

impl Draft {
    /// The draft of the checkpoint at `place`. Touches no file.
    ///
    /// # Errors
    /// The path has no file name at its end.
    pub fn of(place: &Path) -> Result<Draft, CheckpointError> {
        let name = place.file_name().ok_or_else(|| CheckpointError::Unnamed { path: place.into() })?;
        let mut unfinished = name.to_owned();
        unfinished.push(".unfinished");
        Ok(Draft { place: place.into(), unfinished: place.with_file_name(unfinished) })
    }

    /// Makes the directory, which one rank does before any of them writes. Removes an earlier draft that a kill left behind.
    ///
    /// # Errors
    /// The place is taken, or the directory cannot be made.
    pub fn begin(&self) -> Result<(), CheckpointError> {
        if fs::symlink_metadata(&self.place).is_ok() {
            return Err(CheckpointError::Exists { path: self.place.clone() });
        }
        let made = match fs::remove_dir_all(&self.unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::create_dir_all(&self.unfinished),
        };
        Ok(made.map_err(|cause| RunError::Write { file: self.unfinished.clone(), cause })?)
    }

    /// Writes a file, and returns when it is on disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(
        &self,
        name: String,
        content: Content,
        rank: Option<u32>,
        bytes: &[u8],
    ) -> Result<CheckpointFile, CheckpointError> {
        self.write_through(&name, bytes)?;
        Ok(CheckpointFile { name, content, rank, bytes: bytes.len() as u64, blake3: hash(bytes) })
    }

    /// Adds a file that another rank has written.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn adopt(
        &self,
        name: String,
        content: Content,
        rank: u32,
    ) -> Result<CheckpointFile, CheckpointError> {
        let path = self.unfinished.join(&name);
        let bytes = fs::read(&path).map_err(|cause| RunError::Io { file: path, cause })?;
        Ok(CheckpointFile {
            name,
            content,
            rank: Some(rank),
            bytes: bytes.len() as u64,
            blake3: hash(&bytes),
        })
    }

    /// Writes the manifest and renames the draft, which one rank does when all have written. Returns the size of the
    /// manifest when everything is on disk.
    ///
    /// # Errors
    /// A file cannot be written, or the place was taken in the meantime.
    pub fn finish(&self, checkpoint: &Checkpoint) -> Result<u64, CheckpointError> {
        let rest = to_toml(&self.unfinished.join(MANIFEST), checkpoint)?;
        let text = format!("{}\n{rest}", seal(&rest));
        self.write_through(MANIFEST, text.as_bytes())?;
        let io = |cause| RunError::Write { file: self.place.clone(), cause };
        sync_folder(&self.unfinished).map_err(io)?;
        fs::rename(&self.unfinished, &self.place).map_err(io)?;
        // The parent of a bare name is the working directory.
        let parent = self.place.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_folder(parent.unwrap_or(Path::new("."))).map_err(io)?;
        Ok(text.len() as u64)
    }

    /// Removes the draft.
    pub fn discard(&self) {
        // A leftover is harmless, because the next draft of this name removes it first.
        let _ = fs::remove_dir_all(&self.unfinished);
    }

    fn write_through(&self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        let path = self.unfinished.join(name);
        let write = || {
            let mut file = File::create_new(&path)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(|cause| RunError::Write { file: path.clone(), cause })
    }
}

/// Syncs a folder, so that the names in it are on disk.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The seal, which is the first line of a manifest with the other lines `rest`.
fn seal(rest: &str) -> String {
    format!("blake3 = \"{}\"", hash(rest.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{FORMAT, plan::tests::any_plan};

    fn checkpoint(plan: Plan, text: &str, steps: u64, files: Vec<CheckpointFile>) -> Checkpoint {
        Checkpoint {
            format: FORMAT,
            workload: text.into(),
            parameters: 7,
            global_batch: 8,
            plan,
            ranks: plan.ranks(),
            steps,
            samples: 8 * steps,
            files,
        }
    }

    /// A checkpoint of two files at `place`.
    fn written(place: &Path) -> Checkpoint {
        let draft = Draft::of(place).unwrap();
        draft.begin().unwrap();
        let model = draft.write("model-0.safetensors".into(), Content::Model, None, b"parameters").unwrap();
        let random = draft.write("random-1.safetensors".into(), Content::Random, Some(1), b"").unwrap();
        assert_eq!(draft.adopt(random.name.clone(), Content::Random, 1).unwrap(), random);
        let checkpoint = checkpoint("dp2".parse().unwrap(), "w", 3, vec![model, random]);
        assert!(!place.exists(), "it has no name before it is whole");
        draft.finish(&checkpoint).unwrap();
        checkpoint
    }

    fn files(dir: &Path) -> Vec<PathBuf> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// Reads everything, as a restore does.
    fn read_whole(dir: &Path) -> Result<(), CheckpointError> {
        let checkpoint = Checkpoint::read(dir)?;
        checkpoint.files.iter().try_for_each(|file| Checkpoint::read_file(dir, file).map(drop))
    }

    proptest! {
        #[test]
        fn a_manifest_round_trips(plan in any_plan(), text in "\\PC{0,20}", steps in 0..u64::from(u32::MAX)) {
            let dir = tempfile::tempdir().unwrap();
            let draft = Draft::of(&dir.path().join("c")).unwrap();
            draft.begin().unwrap();
            let file = |content, rank| CheckpointFile {
                name: text.clone(), content, rank, bytes: steps, blake3: hash(text.as_bytes()),
            };
            let contents = [(Content::Model, None), (Content::Optimizer, None), (Content::Random, Some(3))];
            let files = contents.map(|(content, rank)| file(content, rank)).to_vec();
            let all = checkpoint(plan, &text, steps, files);
            let bytes = draft.finish(&all).unwrap();
            let place = dir.path().join("c");
            prop_assert_eq!(fs::metadata(place.join(MANIFEST)).unwrap().len(), bytes);
            prop_assert_eq!(Checkpoint::read(&place).unwrap(), all);
        }
    }

    #[test]
    fn a_checkpoint_is_written_once_and_a_draft_that_was_left_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("new/folder/c");
        let left = Draft::of(&place).unwrap();
        left.begin().unwrap();
        left.write("model-0.safetensors".into(), Content::Model, None, b"half").unwrap();
        let checkpoint = written(&place);
        assert_eq!(Checkpoint::read(&place).unwrap(), checkpoint);
        read_whole(&place).unwrap();
        assert_eq!(files(place.parent().unwrap()), std::slice::from_ref(&place), "no draft is left");
        let again = Draft::of(&place).unwrap().begin().unwrap_err().to_string();
        assert!(again.contains("folder/c is there already"), "{again}");
        for nameless in ["", "/", "..", "a/.."] {
            assert!(
                matches!(Draft::of(Path::new(nameless)), Err(CheckpointError::Unnamed { .. })),
                "{nameless}"
            );
        }
    }

    #[test]
    fn every_file_that_is_not_what_was_written_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("c");
        written(&place);
        for file in files(&place) {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            let whole = fs::read(&file).unwrap();
            let mut damaged = vec![[&whole[..], b" "].concat()];
            damaged.extend((0..whole.len()).map(|length| whole[..length].to_vec()));
            damaged.extend((0..8 * whole.len()).map(|bit| {
                let mut flipped = whole.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                flipped
            }));
            for content in damaged {
                fs::write(&file, &content).unwrap();
                let error = read_whole(&place).expect_err(&name).to_string();
                assert!(error.contains(&name), "{error}");
            }
            fs::remove_file(&file).unwrap();
            let error = read_whole(&place).unwrap_err().to_string();
            assert!(error.contains(&name), "{error}");
            fs::write(&file, &whole).unwrap();
            read_whole(&place).unwrap();
        }
    }

    #[test]
    fn a_newer_format_is_refused_by_name_whatever_else_is_new() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(MANIFEST), "format = 2\ncolour = \"red\"\n").unwrap();
        let error = Checkpoint::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("manifest.toml: format 2 is newer than this program"), "{error}");
    }
}
