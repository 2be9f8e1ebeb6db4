//! Writing a checkpoint.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{Checkpoint, CheckpointError, CheckpointFile, Content, MANIFEST, hash, seal};
use crate::{
    files::{RunError, read, to_toml},
    unfinished::sync_folder,
};

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

    /// Writes a file, and returns when it is on disk. The caller adds the list of its tensors.
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
        let (bytes, blake3) = (bytes.len() as u64, hash(bytes));
        Ok(CheckpointFile { name, content, rank, bytes, blake3, tensors: Vec::new() })
    }

    /// Leaves the list of files that `rank` has written, for the rank that writes the manifest.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn leave_list(&self, rank: u32, files: Vec<CheckpointFile>) -> Result<(), CheckpointError> {
        let path = self.unfinished.join(list_name(rank));
        let text = to_toml(&path, &List { files })?;
        Ok(fs::write(&path, text).map_err(|cause| RunError::Write { file: path, cause })?)
    }

    /// The files that `rank` has written. Its list is removed.
    ///
    /// # Errors
    /// There is no list of this rank.
    pub fn take_list(&self, rank: u32) -> Result<Vec<CheckpointFile>, CheckpointError> {
        let path = self.unfinished.join(list_name(rank));
        let list: List = toml::from_str(&read(&path)?)
            .map_err(|error| RunError::Parse { file: path.clone(), message: error.message().into() })?;
        fs::remove_file(&path).map_err(|cause| RunError::Write { file: path, cause })?;
        Ok(list.files)
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

/// The files of one rank, on their way to the manifest.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default, rename = "file")]
    files: Vec<CheckpointFile>,
}

fn list_name(rank: u32) -> String {
    format!("files-{rank}.toml")
}
