//! Joins spans that are too narrow to see.

use std::collections::{BTreeMap, HashSet};

use crate::{
    chart::{Span, SpanKind},
    colours::Colour,
};

/// A span is narrow if it is less than this part of the whole time, or a multiple of it if there are still too many.
const NARROW: f64 = 1.0 / 4_000.0;

/// At most `most` spans, which are in order of lanes and begins: neighbours that are narrow and close to each other are joined. What is
/// as wide as can be seen stays as it is.
pub(super) fn joined(spans: Vec<Span>, whole: f64, most: usize) -> Vec<Span> {
    let mut narrow = whole * NARROW;
    let mut found = spans;
    while found.len() > most && narrow < 2.0 * whole {
        found = joined_below(found, narrow);
        narrow *= 2.0;
    }
    found
}

/// Spans that are joined so far.
struct Several {
    first: Span,
    to: f64,
    spans: usize,
    names: HashSet<String>,
}

fn joined_below(spans: Vec<Span>, narrow: f64) -> Vec<Span> {
    let mut found = Vec::with_capacity(spans.len());
    // By lane, part and whether they are failures, which stay marks.
    let mut open: BTreeMap<(usize, u16, bool), Several> = BTreeMap::new();
    for span in spans {
        let key = (span.lane, span.part.0, span.kind == SpanKind::Failed);
        let is_narrow = span.to - span.from < narrow && span.kind != SpanKind::Lost;
        match open.get_mut(&key) {
            Some(several) if is_narrow && span.from - several.to < narrow => {
                several.to = several.to.max(span.to);
                several.spans += 1;
                several.names.insert(span.name);
                continue;
            }
            _ => found.extend(open.remove(&key).map(Several::into_span)),
        }
        if is_narrow {
            let names = HashSet::from([span.name.clone()]);
            open.insert(key, Several { to: span.to, first: span, spans: 1, names });
        } else {
            found.push(span);
        }
    }
    found.extend(open.into_values().map(Several::into_span));
    found.sort_by(|a, b| a.lane.cmp(&b.lane).then(a.from.total_cmp(&b.from)));
    found
}

impl Several {
    fn into_span(self) -> Span {
        if self.spans == 1 {
            return self.first;
        }
        let (kind, colour) = match self.first.kind {
            SpanKind::Failed => (SpanKind::Failed, Colour::Bad),
            _ => (SpanKind::Several, Colour::Muted),
        };
        let detail = format!("{} spans of {} jobs, joined", self.spans, self.names.len());
        let (name, label, group) = (format!("{} spans", self.spans), String::new(), "joined spans".into());
        Span { to: self.to, name, label, group, kind, colour, detail, ..self.first }
    }
}
