//! The text of a definition.

use jobs::command_line;
use schema::plan::Plan;

/// A definition, with notes on the keys that the user has to check.
#[derive(Default)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) command: Vec<String>,
    pub(super) batch: u32,
    pub(super) plan: Plan,
    pub(super) axes: Vec<&'static str>,
    pub(super) most_zero: Option<u8>,
    /// The words of an axis: with it, or without it and with it.
    pub(super) words: Vec<(&'static str, Vec<String>)>,
    /// Keys to check or fill in, each with its reason.
    pub(super) notes: Vec<String>,
}

impl Definition {
    pub(super) fn text(&self) -> String {
        let mut lines = vec!["# Written by `profile program init` from a command and from what the program says of its options.".to_owned()];
        if !self.notes.is_empty() {
            lines.push("# Check and fill in:".into());
        }
        lines.extend(self.notes.iter().map(|note| format!("# - {note}")));
        lines.push("[[program]]".into());
        lines.push(format!("name = {}", quoted(&self.name)));
        lines.push(format!("command = {}", quoted(&joined(&self.command))));
        lines.push(format!("batches = [{}]", self.batch));
        if self.plan != Plan::default() {
            lines.push(format!("plan = \"{}\"", self.plan));
        }
        if !self.axes.is_empty() {
            let axes: Vec<String> = self.axes.iter().map(|axis| quoted(axis)).collect();
            lines.push(format!("axes = [{}]", axes.join(", ")));
        }
        lines.extend(self.most_zero.map(|most| format!("most = {{ zero = {most} }}")));
        if !self.words.is_empty() {
            lines.extend([String::new(), "[program.words]".into()]);
        }
        for (axis, words) in &self.words {
            let words: Vec<String> = words.iter().map(|text| quoted(text)).collect();
            lines.push(match &words[..] {
                [on] => format!("{axis} = {on}"),
                both => format!("{axis} = [{}]", both.join(", ")),
            });
        }
        lines.join("\n") + "\n"
    }
}

/// Words as a shell would split them. Names in braces need no quotes, because no shell reads them.
fn joined(words: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%{}".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => command_line::quoted(std::slice::from_ref(word)),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    let character = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", c as u32),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(character).collect::<String>())
}
