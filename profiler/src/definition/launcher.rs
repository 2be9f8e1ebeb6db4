//! Takes a command apart: the launcher of ranks, the program, and its arguments.

use std::path::Path;

/// The parts of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// The words of a launcher, with `{ranks}` in place of the number of processes; empty without a launcher.
    pub launcher: Vec<String>,
    /// The number of processes that the launcher starts; `None` without a launcher.
    pub ranks: Option<u16>,
    /// Whether the command names no number of processes, or a word such as `auto`.
    pub is_number_unknown: bool,
    /// The program in the words of the command after the launcher, or with its interpreter.
    pub program: Vec<String>,
    pub arguments: Vec<String>,
}

impl Typed {
    /// The name of the script or the module, without its folder and its ending.
    pub fn script(&self) -> String {
        let last = self.program.last().map(String::as_str).unwrap_or_default();
        if self.program.iter().any(|word| is_module(word)) {
            return last.rsplit('.').next().unwrap_or(last).to_owned();
        }
        Path::new(last).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The command that shows the options of the program: without the launcher, which would start ranks. `python` runs a script that the
    /// launcher runs.
    pub fn asked(&self, python: &str) -> Vec<String> {
        let is_script = self.ranks.is_some();
        let interpreter = is_script.then(|| python.to_owned());
        let help = "--help".to_owned();
        interpreter
            .into_iter()
            .chain(self.program.iter().chain(&self.arguments).cloned())
            .chain([help])
            .collect()
    }
}

/// What there is to know of a launcher.
struct Launcher {
    /// The option for the number of processes, in the spelling that is written.
    ranks: &'static str,
    /// Options without a value.
    flags: &'static [&'static str],
}

const TORCHRUN: Launcher =
    Launcher { ranks: "--nproc-per-node", flags: &["standalone", "no-python", "run-path", "use-env"] };

const ACCELERATE: Launcher = Launcher {
    ranks: "--num_processes",
    flags: &[
        "cpu",
        "multi-gpu",
        "tpu",
        "use-fsdp",
        "use-deepspeed",
        "use-megatron-lm",
        "no-python",
        "quiet",
        "q",
        "debug",
        "same-network",
    ],
};

/// The modules of PyTorch that launch ranks.
const MODULES: [&str; 2] = ["torch.distributed.run", "torch.distributed.launch"];

/// Takes a command apart, which has at least one word.
pub fn take_apart(argv: &[String]) -> Typed {
    let base = |index: usize| argv.get(index).map(|word| base_name(word)).unwrap_or_default();
    let is = |index: usize, word: &str| argv.get(index).is_some_and(|other| other == word);
    if base(0) == "torchrun" {
        return launched(&TORCHRUN, argv, 1);
    }
    if base(0) == "accelerate" && is(1, "launch") {
        return launched(&ACCELERATE, argv, 2);
    }
    if !base(0).starts_with("python") {
        let words = if ["sh", "bash"].contains(&base(0)) { 2 } else { 1 };
        let (program, arguments) = argv.split_at(words.min(argv.len()));
        return Typed { program: program.into(), arguments: arguments.into(), ..Typed::default() };
    }
    let end = end_of_python_options(argv);
    if is_module(&argv[end.min(argv.len() - 1)])
        && argv.get(end + 1).is_some_and(|module| MODULES.contains(&module.as_str()))
    {
        return launched(&TORCHRUN, argv, end + 2);
    }
    let words = if argv.get(end).is_some_and(|word| is_module(word)) { end + 2 } else { end + 1 };
    let (program, arguments) = argv.split_at(words.min(argv.len()));
    Typed { program: program.into(), arguments: arguments.into(), ..Typed::default() }
}

/// The index of the script or of `-m` after an interpreter and its options.
fn end_of_python_options(argv: &[String]) -> usize {
    let mut index = 1;
    while let Some(word) = argv.get(index).filter(|word| word.starts_with('-') && !is_module(word)) {
        index += if ["-X", "-W"].contains(&word.as_str()) { 2 } else { 1 };
    }
    index
}

/// A command whose first words are a launcher, and whose options follow from `begin` on.
fn launched(launcher: &Launcher, argv: &[String], begin: usize) -> Typed {
    let mut typed = Typed {
        launcher: argv[..begin].to_vec(),
        ranks: Some(1),
        is_number_unknown: true,
        ..Typed::default()
    };
    let mut has_ranks = false;
    let mut index = begin;
    while let Some(word) = argv.get(index).filter(|word| word.starts_with('-') && !is_module(word)) {
        let (spelling, joined) =
            word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        index += 1;
        let name = spelling.trim_start_matches('-').replace('_', "-");
        let is_ranks = ["nproc-per-node", "num-processes"].contains(&name.as_str());
        let value = match joined {
            Some(value) => Some(value.to_owned()),
            None if launcher.flags.contains(&name.as_str()) => None,
            None => {
                index += 1;
                argv.get(index - 1).cloned()
            }
        };
        if !is_ranks {
            typed.launcher.push(word.clone());
            typed.launcher.extend(value.filter(|_| joined.is_none()));
            continue;
        }
        has_ranks = true;
        let number = value.and_then(|value| value.parse().ok()).filter(|number| *number > 0);
        typed.is_number_unknown = number.is_none();
        typed.ranks = Some(number.unwrap_or(1));
        match joined {
            Some(_) => typed.launcher.push(format!("{spelling}={{ranks}}")),
            None => typed.launcher.extend([spelling.to_owned(), "{ranks}".into()]),
        }
    }
    if !has_ranks {
        typed.launcher.extend([launcher.ranks.to_owned(), "{ranks}".into()]);
    }
    let words = if argv.get(index).is_some_and(|word| is_module(word)) { 2 } else { 1 };
    let (program, arguments) =
        argv[index.min(argv.len())..].split_at(words.min(argv.len().saturating_sub(index)));
    Typed { program: program.into(), arguments: arguments.into(), ..typed }
}

fn is_module(word: &str) -> bool {
    word == "-m" || word == "--module"
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use jobs::command_line::CommandLine;

    use super::*;

    fn split(text: &str) -> Vec<String> {
        text.parse::<CommandLine>().expect("a command").0
    }

    fn parts(command: &str) -> (String, Option<u16>, String, String) {
        let argv = split(command);
        let typed = take_apart(&argv);
        (typed.launcher.join(" "), typed.ranks, typed.program.join(" "), typed.arguments.join(" "))
    }

    #[test]
    fn a_command_is_cut_into_launcher_ranks_program_and_arguments() {
        for (command, launcher, ranks, program, arguments) in [
            ("python3 -u train.py --lr 1", "", None, "python3 -u train.py", "--lr 1"),
            ("python3 -m pkg.train a", "", None, "python3 -m pkg.train", "a"),
            ("./train.sh a b", "", None, "./train.sh", "a b"),
            ("sh train.sh a", "", None, "sh train.sh", "a"),
            (
                "torchrun --standalone --nproc_per_node=4 train.py --x",
                "torchrun --standalone --nproc_per_node={ranks}",
                Some(4),
                "train.py",
                "--x",
            ),
            (
                "bin/torchrun --nnodes 1 --nproc-per-node auto -m pkg.train --x 1",
                "bin/torchrun --nnodes 1 --nproc-per-node {ranks}",
                Some(1),
                "-m pkg.train",
                "--x 1",
            ),
            ("torchrun train.py", "torchrun --nproc-per-node {ranks}", Some(1), "train.py", ""),
            (
                "python -m torch.distributed.run --nproc-per-node 2 train.py",
                "python -m torch.distributed.run --nproc-per-node {ranks}",
                Some(2),
                "train.py",
                "",
            ),
            (
                "accelerate launch --multi_gpu --num_processes 8 train.py a",
                "accelerate launch --multi_gpu --num_processes {ranks}",
                Some(8),
                "train.py",
                "a",
            ),
            ("torchrun", "torchrun --nproc-per-node {ranks}", Some(1), "", ""),
            ("python3", "", None, "python3", ""),
            ("python3 -m", "", None, "python3 -m", ""),
        ] {
            let expected = (launcher.to_owned(), ranks, program.to_owned(), arguments.to_owned());
            assert_eq!(parts(command), expected, "{command}");
        }
    }

    #[test]
    fn the_program_is_asked_without_its_launcher() {
        let asked = |command: &str| take_apart(&split(command)).asked("py").join(" ");
        assert_eq!(asked("torchrun --nproc-per-node 2 train.py a"), "py train.py a --help");
        assert_eq!(asked("python3 train.py a"), "python3 train.py a --help");
        let script = |command: &str| take_apart(&split(command)).script();
        assert_eq!((script("python3 -m pkg.train"), script("sh a/b.sh x")), ("train".into(), "b".into()));
    }
}
