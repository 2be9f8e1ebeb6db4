//! Values of `--vary` for names in braces in the commands of programs. Each combination of values is a cell.

use std::{collections::BTreeMap, str::FromStr};

use anyhow::bail;
use schema::{
    braces,
    catalog::Catalog,
    job::Job,
    values::{self, Values},
};

/// The values of one name, typed as `NAME=V1,V2,..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariedName {
    name: String,
    values: Vec<String>,
}

impl FromStr for VariedName {
    type Err = String;

    fn from_str(text: &str) -> Result<VariedName, String> {
        let (name, list) = text.split_once('=').ok_or("expected NAME=V1,V2,.., as in lr=0.1,0.01")?;
        values::check_name(name)?;
        let mut values: Vec<String> = Vec::new();
        for value in list.split(',') {
            values::check_value(value)?;
            if values.iter().any(|other| other == value) {
                return Err(format!("{name} has the value {value} twice; write each value once"));
            }
            values.push(value.into());
        }
        Ok(VariedName { name: name.into(), values })
    }
}

/// All values of a command line, by their names.
#[derive(Clone, Debug, Default)]
pub struct Varied(BTreeMap<String, Vec<String>>);

impl Varied {
    /// # Errors
    /// A name is given twice.
    pub fn new(options: &[VariedName]) -> anyhow::Result<Varied> {
        let mut varied = BTreeMap::new();
        for VariedName { name, values } in options {
            if varied.insert(name.clone(), values.clone()).is_some() {
                bail!("--vary names {name} twice; write all of its values in one --vary");
            }
        }
        Ok(Varied(varied))
    }

    /// One value for each name.
    pub fn from_values(values: &Values) -> Varied {
        Varied(values.iter().map(|(name, value)| (name.clone(), vec![value.clone()])).collect())
    }

    /// Checks that each name stands in a command, or in the definition of one of the jobs with a default.
    ///
    /// # Errors
    /// No command has one of the names.
    pub fn check_used<'a>(
        &self,
        commands: impl Iterator<Item = &'a [String]>,
        catalog: &Catalog,
        jobs: &[Job],
    ) -> anyhow::Result<()> {
        let in_commands = commands.flatten().flat_map(|word| braces::names(word));
        let programs = jobs.iter().filter_map(|job| catalog.program(&job.workload));
        let in_definitions = programs.flat_map(|program| program.defaults.keys().map(String::as_str));
        let known: Vec<&str> = in_commands.chain(in_definitions).collect();
        if let Some(name) = self.0.keys().find(|name| !known.contains(&name.as_str())) {
            bail!(
                "--vary {name}: no command of this run has {{{name}}}; write {{{name}}} in a command, or give {name} a value in \
                 [program.defaults] of a definition that has it"
            );
        }
        Ok(())
    }

    /// All combinations of the values.
    pub fn all_combinations(&self) -> Vec<Values> {
        self.combinations(|_| true)
    }

    /// All combinations of the values of names that `has` accepts, in the order in which the values were typed; a later name changes
    /// faster. One combination without values if it accepts no name.
    pub fn combinations(&self, has: impl Fn(&str) -> bool) -> Vec<Values> {
        let mut combinations = vec![Values::new()];
        for (name, values) in self.0.iter().filter(|(name, _)| has(name)) {
            let with = |known: &Values| {
                let add = |value: &String| {
                    known.clone().into_iter().chain([(name.clone(), value.clone())]).collect::<Values>()
                };
                values.iter().map(add).collect::<Vec<_>>()
            };
            combinations = combinations.iter().flat_map(with).collect();
        }
        combinations
    }
}

/// A job in the spelling of rows, with the values of its program.
pub(crate) fn spelled(job: &str, values: &Values) -> String {
    values::text(values).map_or_else(|| job.to_owned(), |text| format!("{job} {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_the_cross_product_of_the_values_of_known_names() {
        let options: Vec<VariedName> =
            ["width=64,128", "lr=0.1,0.01"].map(|text| text.parse().expect("it is well formed")).into();
        let varied = Varied::new(&options).expect("each name is given once");
        let spellings = |has: fn(&str) -> bool| {
            let combinations = varied.combinations(has);
            combinations.iter().map(|values| spelled("a", values)).collect::<Vec<_>>()
        };
        let all = ["a lr=0.1 width=64", "a lr=0.1 width=128", "a lr=0.01 width=64", "a lr=0.01 width=128"];
        assert_eq!(spellings(|_| true), all);
        assert_eq!(spellings(|name| name == "lr"), ["a lr=0.1", "a lr=0.01"]);
        assert_eq!(spellings(|_| false), ["a"]);
        let twice = Varied::new(&[options[0].clone(), options[0].clone()]).expect_err("refused").to_string();
        assert!(twice.contains("--vary names width twice"), "{twice}");
    }
}
