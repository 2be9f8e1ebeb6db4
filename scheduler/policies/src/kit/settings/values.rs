//! The values of settings, as they follow the name of a policy.

use std::{cell::Cell, ops::RangeBounds as _};

use anyhow::{Context as _, bail, ensure};
use schema::units::Nanos;

use super::{Kind, Setting};

/// A value for each declared setting of a policy.
///
/// The getters panic if a key is not declared, or declared as another kind: a policy reads what it declares, whatever a user writes,
/// and a test builds all policies.
#[derive(Debug)]
pub(crate) struct Values(Vec<Slot>);

#[derive(Debug)]
struct Slot {
    key: &'static str,
    value: Value,
    /// Whether the user has written it.
    is_given: bool,
    is_read: Cell<bool>,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Time(Nanos),
    Number(f64),
    Word(&'static str),
    Times(Vec<Nanos>),
    /// The word that stands for no value.
    None,
}

impl Values {
    /// Parses what follows the name of a policy. Settings that are not in it have their defaults.
    ///
    /// # Errors
    /// Fails at a setting that is not declared or given twice, and at a value that it cannot have.
    pub(crate) fn parse(declared: &[Setting], text: &str) -> anyhow::Result<Values> {
        let mut given: Vec<(&Setting, &str)> = Vec::new();
        for (position, part) in text.split(':').filter(|_| !text.is_empty()).enumerate() {
            let (setting, value) = named(declared, position, part)?;
            ensure!(
                given.iter().all(|(other, _)| other.key != setting.key),
                "'{}' is given twice; leave one out",
                setting.key
            );
            given.push((setting, value));
        }
        let slot = |setting: &Setting| {
            let value = given.iter().find(|(other, _)| other.key == setting.key).map(|(_, value)| *value);
            Ok(Slot {
                key: setting.key,
                value: parse(setting, value.unwrap_or(setting.default))?,
                is_given: value.is_some(),
                is_read: Cell::new(false),
            })
        };
        Ok(Values(declared.iter().map(slot).collect::<anyhow::Result<_>>()?))
    }

    fn slot(&self, key: &str) -> &Slot {
        let slot = self.0.iter().find(|slot| slot.key == key);
        let slot = slot.unwrap_or_else(|| panic!("the policy declares no setting '{key}'"));
        slot.is_read.set(true);
        slot
    }

    /// Declared settings that the policy has not read.
    pub(crate) fn unread(&self) -> Vec<&'static str> {
        self.0.iter().filter(|slot| !slot.is_read.get()).map(|slot| slot.key).collect()
    }

    pub(crate) fn is_given(&self, key: &str) -> bool {
        self.slot(key).is_given
    }

    pub(crate) fn time(&self, key: &str) -> Nanos {
        self.time_or_none(key).unwrap_or_else(|| panic!("setting '{key}' may have no time"))
    }

    pub(crate) fn time_or_none(&self, key: &str) -> Option<Nanos> {
        match self.slot(key).value {
            Value::Time(time) => Some(time),
            Value::None => None,
            ref other => panic!("setting '{key}' is no time, but {other:?}"),
        }
    }

    pub(crate) fn number(&self, key: &str) -> f64 {
        self.number_or_none(key).unwrap_or_else(|| panic!("setting '{key}' may have no number"))
    }

    pub(crate) fn number_or_none(&self, key: &str) -> Option<f64> {
        match self.slot(key).value {
            Value::Number(number) => Some(number),
            Value::None => None,
            ref other => panic!("setting '{key}' is no number, but {other:?}"),
        }
    }

    /// The value for the word of a setting. `meanings` has all words of the setting.
    pub(crate) fn word<T: Copy>(&self, key: &str, meanings: &[(&str, T)]) -> T {
        let Value::Word(word) = self.slot(key).value else { panic!("setting '{key}' is no word") };
        let meaning = meanings.iter().find(|(other, _)| *other == word);
        meaning.unwrap_or_else(|| panic!("'{key}={word}' has no meaning")).1
    }

    /// Whether the policy has this setting, and it is `off`.
    pub(crate) fn is_off(&self, key: &str) -> bool {
        self.0.iter().any(|slot| slot.key == key && slot.value == Value::Word("off"))
    }

    pub(crate) fn is_on(&self, key: &str) -> bool {
        self.word(key, &[("on", true), ("off", false)])
    }

    pub(crate) fn times(&self, key: &str) -> Vec<Nanos> {
        match &self.slot(key).value {
            Value::Times(times) => times.clone(),
            other => panic!("setting '{key}' is no list of times, but {other:?}"),
        }
    }
}

/// The setting that a part names, and its value.
fn named<'a, 'b>(
    declared: &'a [Setting],
    position: usize,
    part: &'b str,
) -> anyhow::Result<(&'a Setting, &'b str)> {
    let with_key = |key: &str| declared.iter().find(|setting| setting.key == key && !setting.is_positional());
    if let Some((key, value)) = part.split_once('=') {
        return Ok((with_key(key).with_context(|| format!("there is no setting '{key}'"))?, value));
    }
    if let Some(setting) = with_key(part) {
        bail!("'{part}' has no value: write {}, such as {}", setting.values(), setting.example());
    }
    match declared.iter().find(|setting| setting.is_positional()) {
        Some(setting) if position == 0 => Ok((setting, part)),
        Some(setting) => bail!("'{part}' is not KEY=VALUE; a {} comes first", setting.key),
        None => bail!("'{part}' is not KEY=VALUE"),
    }
}

/// Parses a value of a setting.
fn parse(setting: &Setting, text: &str) -> anyhow::Result<Value> {
    if setting.or == Some(text) {
        return Ok(Value::None);
    }
    value(setting.kind, text).with_context(|| {
        let written = setting.written(text);
        let remedy = match setting.kind {
            Kind::Words(_) => {
                setting.words().iter().map(|word| setting.written(word)).collect::<Vec<_>>().join(" or ")
            }
            _ => format!("{}, such as {}", setting.values(), setting.example()),
        };
        format!("'{written}': write {remedy}")
    })
}

/// A value of a kind. `None` if the text has none.
fn value(kind: Kind, text: &str) -> Option<Value> {
    match kind {
        Kind::Time { least, most } => {
            time(text).filter(|time| (least..=most).contains(time)).map(Value::Time)
        }
        Kind::Seconds(most) => {
            let is_valid =
                |time: &Nanos| time.0.is_multiple_of(Nanos::SECOND.0) && (Nanos(1)..=most).contains(time);
            time(text).filter(is_valid).map(Value::Time)
        }
        Kind::Number { range, is_whole, .. } => {
            let is_valid = |number: &f64| range.contains(number) && (!is_whole || number.fract() == 0.0);
            number(text).filter(is_valid).map(Value::Number)
        }
        Kind::Percent => {
            let percent = number(text.strip_suffix('%').unwrap_or(text));
            percent.filter(|percent| *percent >= 0.0).map(|percent| Value::Number(percent / 100.0))
        }
        Kind::Words(words) => words.iter().find(|word| **word == text).map(|word| Value::Word(word)),
        Kind::Times => {
            let times: Vec<Nanos> = text.split('/').map(time).collect::<Option<_>>()?;
            let ascends = times[0] > Nanos::ZERO && times.is_sorted_by(|one, next| one < next);
            ascends.then_some(Value::Times(times))
        }
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// `None` also for a time that is too long for nanoseconds.
fn time(text: &str) -> Option<Nanos> {
    let nanos = humantime::parse_duration(text).ok()?.as_nanos();
    u64::try_from(nanos).ok().map(Nanos)
}
