use proptest::prelude::*;

use super::*;
use crate::{catalog::Catalog, plan::any_plan::any_plan};

pub(super) fn checkpoint(plan: Plan, text: &str, steps: u64, files: Vec<CheckpointFile>) -> Checkpoint {
    Checkpoint {
        format: FORMAT,
        workload: text.into(),
        parameters: 7,
        global_batch: 8,
        plan,
        ranks: plan.ranks(),
        steps,
        samples: 8 * steps,
        optimizer: None,
        model: None,
        files,
    }
}

/// A checkpoint of two files at `place`.
fn written(place: &Path) -> Checkpoint {
    let draft = Draft::of(place).unwrap();
    draft.begin().unwrap();
    let model = draft.write("model-0.safetensors".into(), Content::Model, None, b"parameters").unwrap();
    let random = draft.write("random-1.safetensors".into(), Content::Random, Some(1), b"").unwrap();
    draft.leave_list(1, vec![random.clone()]).unwrap();
    assert!(draft.take_list(2).unwrap_err().to_string().contains("files-2.toml"));
    assert_eq!(draft.take_list(1).unwrap(), std::slice::from_ref(&random));
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
        let regions = [
            None,
            Some(Region::Slice { dim: 1, ranges: vec![0..2, 7..steps as usize] }),
            Some(Region::Numbers { first: 3, count: steps as usize, order: vec![0, 2, 3, 1] }),
        ];
        let tensors = regions.map(|region| StoredTensor { name: text.clone(), shape: vec![4, 5, 1, 1], region });
        let file = |content, rank, tensors| CheckpointFile {
            name: format!("x{}", text.replace('/', "")), content, rank, bytes: steps, blake3: hash(text.as_bytes()), tensors,
        };
        let files = vec![
            file(Content::Model, None, Vec::new()),
            file(Content::Optimizer, Some(1), tensors.to_vec()),
            file(Content::Random, Some(3), Vec::new()),
        ];
        let workload = Catalog::embedded().get("neumf").unwrap().clone();
        let (model, optimizer) = (Some(workload.model), Some(workload.optimizer));
        let all = Checkpoint { model, optimizer, ..checkpoint(plan, &text, steps, files) };
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
        assert!(matches!(Draft::of(Path::new(nameless)), Err(CheckpointError::Unnamed { .. })), "{nameless}");
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
    fs::write(dir.path().join(MANIFEST), "format = 3\ncolour = \"red\"\n").unwrap();
    let error = Checkpoint::read(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("manifest.toml: format 3 is newer than this program, which reads up to 2"),
        "{error}"
    );
}

#[test]
fn a_manifest_that_names_a_file_elsewhere_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let whole = checkpoint("dp2".parse().unwrap(), "w", 3, vec![]);
    for name in ["../model-0.safetensors", "/etc/hostname", "below/model-0.safetensors", "..", ""] {
        let file = CheckpointFile {
            name: name.into(),
            content: Content::Model,
            rank: None,
            bytes: 5,
            blake3: "00".into(),
            tensors: vec![],
        };
        let rest = toml::to_string(&Checkpoint { files: vec![file], ..whole.clone() }).unwrap();
        fs::write(dir.path().join(MANIFEST), format!("{}\n{rest}", seal(&rest))).unwrap();
        let error = Checkpoint::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("manifest.toml: {name:?} is no name of a file")), "{error}");
    }
}

#[test]
fn a_manifest_of_format_1_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let rest = "format = 1\nworkload = \"w\"\nparameters = 7\nglobal_batch = 8\nplan = \"dp2\"\nranks = 2\n\
                steps = 3\nsamples = 24\n\n[[file]]\nname = \"model-0.safetensors\"\ncontent = \"model\"\n\
                bytes = 5\nblake3 = \"00\"\n";
    fs::write(dir.path().join(MANIFEST), format!("{}\n{rest}", seal(rest))).unwrap();
    let (name, blake3) = ("model-0.safetensors".into(), "00".into());
    let file =
        CheckpointFile { name, content: Content::Model, rank: None, bytes: 5, blake3, tensors: vec![] };
    let expected = Checkpoint { format: 1, ..checkpoint("dp2".parse().unwrap(), "w", 3, vec![file]) };
    assert_eq!(Checkpoint::read(dir.path()).unwrap(), expected);
}
