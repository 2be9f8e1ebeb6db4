//! A first definition of a user's program as a workload, from its command and from what it says of its options.

mod arguments;
mod help;
mod launcher;
mod roles;
#[cfg(test)]
mod tests;
mod text;

use schema::{
    catalog::Catalog,
    plan::{Plan, Precision},
};

pub use self::launcher::{Typed, take_apart};
use self::{
    arguments::Arguments,
    help::HelpOption,
    roles::{FLAG_OF_RECOMPUTATION, Role, find, may_be_batch, role},
    text::Definition,
};

/// The batch of a rank if neither the command nor the program names one.
const ASSUMED_BATCH: u32 = 8;

/// The text of a definition whose job without batch and plan is the command as typed. `help` is what the program said of its options.
///
/// # Errors
/// No definition describes the command.
pub fn write(typed: &Typed, help: &str, catalog: &Catalog) -> Result<String, String> {
    let options = help::options(help);
    let mut draft = Draft {
        arguments: Arguments::new(&typed.arguments),
        has_ranks: typed.ranks.is_some(),
        definition: Definition { name: name(typed, catalog), ..Definition::default() },
        plan: Plan { dp: typed.ranks.unwrap_or(1), ..Plan::default() },
    };
    if options.is_empty() {
        draft.note(
            "--help names no options: write {micro_batch}, {ga} and the words of axes where they belong",
        );
    }
    draft.ranks(typed);
    draft.batch_and_accumulation(&options);
    draft.precision(&options);
    draft.recomputation(&options);
    draft.zero(&options);
    draft.other(&options);
    let Draft { arguments, mut definition, plan, .. } = draft;
    definition.command = [&typed.launcher[..], &typed.program, &arguments.into_words()].concat();
    definition.plan = plan;
    let text = definition.text();
    let read = catalog.clone().add("the definition", &text);
    read.map(|()| text).map_err(|error| error.to_string())
}

/// A name for the program that no workload has, from the name of its script.
fn name(typed: &Typed, catalog: &Catalog) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let stem: String = typed.script().chars().map(plain).take(30).collect();
    let name = match stem.trim_matches('-') {
        "" => "program",
        name => name,
    };
    let is_taken = name.starts_with("cmd-") || catalog.entry(name).is_some();
    if is_taken { format!("my-{name}") } else { name.to_owned() }
}

/// A definition in the making.
struct Draft {
    arguments: Arguments,
    has_ranks: bool,
    definition: Definition,
    /// The plan of the command as typed.
    plan: Plan,
}

impl Draft {
    fn note(&mut self, note: impl Into<String>) {
        self.definition.notes.push(note.into());
    }

    fn ranks(&mut self, typed: &Typed) {
        if self.has_ranks {
            self.definition.axes.push("dp");
        } else {
            self.note(
                "ranks: the command has no launcher such as torchrun; with one, write {ranks} as its number of processes, and add \
                 \"dp\" to axes",
            );
        }
        if typed.is_number_unknown {
            self.note("plan: the command names no number of processes; the default is written with 1");
        }
    }

    fn batch_and_accumulation(&mut self, options: &[HelpOption]) {
        let option_for = |wanted: Role| find(options, wanted);
        let (global, micro) = (option_for(Role::GlobalBatch), option_for(Role::MicroBatch));
        let either = option_for(Role::Batch);
        let number = |draft: &mut Draft, option: &HelpOption, name: &str| {
            let typed = draft.arguments.fill(option, name);
            typed.as_deref().or(option.default.as_deref()).and_then(|text| text.parse::<u32>().ok())
        };
        let accumulation = option_for(Role::Accumulation);
        if let Some(option) = accumulation {
            self.plan.ga = number(self, option, "{ga}").and_then(|ga| ga.try_into().ok()).unwrap_or(1).max(1);
            self.definition.axes.push("ga");
        }
        let ranks = u32::from(self.plan.dp);
        let mut batch = None;
        if let Some(option) = micro {
            let known = number(self, option, "{micro_batch}");
            batch = known.map(|known| known.saturating_mul(ranks * u32::from(self.plan.ga)));
        }
        if let Some(option) = global {
            batch = number(self, option, "{batch}").or(batch);
            if micro.is_some() && accumulation.is_none() {
                self.definition.axes.push("ga");
            }
        }
        if let (None, None, Some(option)) = (micro, global, either) {
            let is_divided = self.has_ranks || accumulation.is_some();
            if is_divided {
                let known = number(self, option, "{micro_batch}");
                batch = known.map(|known| known.saturating_mul(ranks * u32::from(self.plan.ga)));
                self.note(format!(
                    "command: {} is taken to be the samples of one rank in one pass; if it is the batch of all ranks, write {{batch}}",
                    option.name
                ));
            } else {
                batch = number(self, option, "{batch}");
            }
        }
        if micro.or(global).or(either).is_none() {
            let near: Vec<&str> =
                options.iter().filter(|option| may_be_batch(option)).map(|option| &*option.name).collect();
            let is_it =
                if near.is_empty() { String::new() } else { format!(" (may it be {}?)", near.join(" or ")) };
            self.note(format!(
                "command: no option for the batch was found{is_it}; write {{micro_batch}} or {{batch}} where it belongs",
            ));
        }
        let batch = batch.filter(|batch| *batch > 0).unwrap_or_else(|| {
            self.note(
                "batches: neither the command nor --help names a batch; write those that you want to measure",
            );
            ASSUMED_BATCH * ranks * u32::from(self.plan.ga)
        });
        if !batch.is_multiple_of(ranks * u32::from(self.plan.ga)) {
            self.note("plan: the typed batch cannot be cut into the typed ranks and passes, so that the plan is left out");
            self.plan = Plan::default();
        }
        self.definition.batch = batch;
    }

    fn precision(&mut self, options: &[HelpOption]) {
        let Some(option) = find(options, Role::Precision) else {
            return;
        };
        let is_bf16 =
            |word: &String| ["bf16", "bfloat16", "bf16-mixed"].contains(&word.to_lowercase().as_str());
        if !option.choices.is_empty() && !option.choices.iter().any(is_bf16) {
            return;
        }
        let typed = self.arguments.take(option);
        let name = &option.name;
        let on_word = option.choices.iter().find(|word| is_bf16(word)).cloned();
        let words = if !option.takes_value {
            vec![name.clone()]
        } else if option.is_flag_with_value {
            vec![format!("{name} True")]
        } else {
            let on = on_word
                .unwrap_or_else(|| if name.contains("dtype") { "bfloat16" } else { "bf16" }.to_owned());
            let is_fp32 = |word: &&String| {
                ["float32", "fp32", "32", "no", "none"].contains(&word.to_lowercase().as_str())
            };
            let off = typed.clone().flatten().filter(|word| !is_bf16(word));
            let off = off.or_else(|| option.choices.iter().find(is_fp32).cloned());
            if option.choices.is_empty() {
                self.note(format!("words.bf16: check that {name} takes {on}"));
            }
            off.into_iter().chain([on]).map(|word| format!("{name} {word}")).collect()
        };
        let is_on = match &typed {
            Some(Some(word)) => {
                is_bf16(word) || (option.is_flag_with_value && word.eq_ignore_ascii_case("true"))
            }
            Some(None) => true,
            None => option.default.as_ref().is_some_and(is_bf16),
        };
        if is_on {
            self.plan.precision = Precision::Bf16;
        }
        self.definition.axes.push("bf16");
        self.definition.words.push(("bf16", words));
    }

    fn recomputation(&mut self, options: &[HelpOption]) {
        let Some(option) = find(options, Role::Recomputation) else {
            return;
        };
        let typed = self.arguments.take(option);
        let word = if option.takes_value { format!("{} True", option.name) } else { option.name.clone() };
        if option.name.ends_with(FLAG_OF_RECOMPUTATION) {
            self.note(format!("words.gc: check that {word} computes activations again, and saves nothing"));
        }
        self.plan.gc = typed.is_some();
        self.definition.axes.push("gc");
        self.definition.words.push(("gc", vec![word]));
    }

    fn zero(&mut self, options: &[HelpOption]) {
        let Some(option) = find(options, Role::Zero) else { return };
        if !self.has_ranks || !option.takes_value {
            self.note(format!(
                "axes: {} may be a stage of ZeRO, which needs ranks; see words.zero",
                option.name
            ));
            return;
        }
        let stage = |text: &String| text.parse::<u8>().ok().filter(|stage| *stage <= 3);
        let typed = self.arguments.take(option).flatten().as_ref().and_then(stage).unwrap_or(0);
        if self.plan.dp > 1 {
            self.plan.zero = typed;
        }
        match option.choices.iter().filter_map(stage).max() {
            Some(most) if most > 0 => self.definition.most_zero = Some(most),
            _ => self.note(format!(
                "most: if {} goes up to another stage than 3, name it, as in most = {{ zero = 1 }}",
                option.name
            )),
        }
        self.definition.axes.push("zero");
        self.definition.words.push(("zero", vec![format!("{} {{zero}}", option.name)]));
    }

    /// Notes on options that no plan has.
    fn other(&mut self, options: &[HelpOption]) {
        for option in options {
            let name = &option.name;
            match role(option) {
                Some(Role::Seed) => self.note(format!(
                    "command: {name} {{repeat}} gives each repeat another seed"
                )),
                Some(Role::Steps) => self.note(format!(
                    "command: {name} should be large enough that the program still trains when its measurement ends"
                )),
                Some(Role::Output) => self.note(format!(
                    "command: {name} {{launch}} gives each launch a folder of its own"
                )),
                _ => {}
            }
        }
    }
}
