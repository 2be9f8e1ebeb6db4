//! How far intervals reach: what would have covered 95 % of the slowdowns that were left out, for each class of contention.

use formats::interference_fit::{ContentionClass, ContentionReach, ModeFit};

use crate::held_out::conformal;

/// Half of a 95 % interval of the t distribution of effects and residuals over its scale.
pub(super) const T_REACH: f64 = 3.182;

/// The number of errors of a class that count as much as those of all classes together.
const SHRUNK_BY: f64 = 20.0;

/// Half of a 95 % interval over the standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reach {
    /// If a member is of a family without rows.
    pub(super) of_unknown: f64,
    pub(super) of_known: f64,
}

/// One reach for all slowdowns, and one for each class of contention. A file without classes has the first alone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reaches {
    pub(super) common: Reach,
    by_class: Vec<(ContentionClass, Reach)>,
}

impl Default for Reaches {
    fn default() -> Reaches {
        Reaches { common: Reach { of_unknown: T_REACH, of_known: T_REACH }, by_class: Vec::new() }
    }
}

/// The sizes of errors of predictions over their standard deviations, each with its class of contention.
pub(super) type Ratios = Vec<(ContentionClass, f64)>;

impl Reaches {
    /// The reach by errors of predictions of families, and of groups, that were left out. Those of unknown families are at least `least`.
    pub(super) fn new(of_families: &Ratios, of_groups: &Ratios, least: f64) -> Reaches {
        let reach = |class| Reach {
            of_unknown: covering(of_families, class).max(least),
            of_known: covering(of_groups, class),
        };
        let by_class = ContentionClass::ALL.iter().map(|class| (*class, reach(Some(*class)))).collect();
        Reaches { common: reach(None), by_class }
    }

    pub(super) fn of_class(&self, class: ContentionClass) -> Reach {
        let own = self.by_class.iter().find(|(own, _)| *own == class);
        own.map_or(self.common, |(_, reach)| *reach)
    }

    pub(super) fn to_file(&self) -> Vec<ContentionReach> {
        let of_class = |(class, reach): &(ContentionClass, Reach)| ContentionReach {
            class: *class,
            reach: reach.of_unknown,
            reach_of_known: reach.of_known,
        };
        self.by_class.iter().map(of_class).collect()
    }

    pub(super) fn from_file(file: &ModeFit) -> Reaches {
        let reach = |of_unknown, of_known| Reach { of_unknown, of_known };
        let by_class = file.reaches.iter().map(|own| (own.class, reach(own.reach, own.reach_of_known)));
        Reaches { common: reach(file.reach, file.reach_of_known), by_class: by_class.collect() }
    }
}

/// The reach that would have covered 95 % of the errors of a class, which is close to that of all errors if the class has few.
fn covering(ratios: &Ratios, class: Option<ContentionClass>) -> f64 {
    let mut all: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
    let Some(common) = conformal(&mut all) else { return T_REACH };
    let Some(class) = class else { return common };
    let mut own: Vec<f64> = ratios.iter().filter(|(own, _)| *own == class).map(|(_, ratio)| *ratio).collect();
    let count = own.len() as f64;
    let of_class = conformal(&mut own).unwrap_or(common);
    (count * of_class + SHRUNK_BY * common) / (count + SHRUNK_BY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_with_many_errors_has_its_own_reach_and_one_with_few_nearly_the_common_one() {
        let many = (0..999).map(|number| (ContentionClass::Heavy, f64::from(number % 100) / 100.0));
        let few = (0..2).map(|_| (ContentionClass::Light, 4.0));
        let ratios: Ratios = many.chain(few).collect();
        let reaches = Reaches::new(&ratios, &Vec::new(), 0.5);
        let of_unknown = |class| reaches.of_class(class).of_unknown;
        assert!((reaches.common.of_unknown - 0.95).abs() < 0.011, "{reaches:?}");
        assert!((of_unknown(ContentionClass::Heavy) - 0.95).abs() < 0.011, "{reaches:?}");
        let expected = (2.0 * 4.0 + 20.0 * reaches.common.of_unknown) / 22.0;
        assert!((of_unknown(ContentionClass::Light) - expected).abs() < 1e-9, "{reaches:?}");
        assert_eq!(of_unknown(ContentionClass::Medium), reaches.common.of_unknown);
        assert_eq!(reaches.common.of_known, T_REACH);
    }
}
