//! A standing query as the API shows it.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_cypher_compiler::Words;
use weir_engine::{Histogram, LeftOut, Paused, Stage};
use weir_model::{Expr, Tick};

use super::{Query, lock};
use crate::clock;
use crate::wire::family::Family;
use crate::wire::standing::StartFrom;
use crate::wire::v2;

/// A query that is behind by less is at work.
const BEHIND_MIN: Duration = Duration::from_secs(1);

/// Characters of an expression that are shown at most.
const EXPRESSION_MAX: usize = 500;

/// How late the results of a query are.
pub struct Behind {
    pub answered_upto: SystemTime,
    pub by: Duration,
    /// Changes of rows that wait for it.
    pub changes: usize,
}

impl Query {
    /// None where it keeps up, and while its first answer is worked out: until then there is nothing that it is behind of.
    pub fn behind(&self) -> Option<Behind> {
        let (answered, changes) = self.installed().behind().filter(|(answered, _)| *answered > Tick::default())?;
        let answered_upto = clock::from_millis(answered.millis());
        let by = SystemTime::now().duration_since(answered_upto).unwrap_or_default();
        Some(Behind { answered_upto, by, changes })
    }

    pub fn to_json(&self, family: Family) -> Json {
        let settings = self.settings();
        let hash = self.hash.load(Ordering::Relaxed) as i64;
        let mut described = json!({
            "name": self.name,
            "internalId": self.id.0.to_string(),
            "pattern": settings.pattern.to_json(family),
            "outputs": if family.is_v2() { v2::standing::workflows(&settings.outputs, family).into() } else { settings.outputs_json() },
            "includeCancellations": settings.include_cancellations,
            "inputBufferSize": settings.input_buffer_size,
            "stats": {"local": {
                "rates": self.meter.to_json(),
                "startTime": clock::instant(self.started),
                "totalRuntime": family.duration(self.clock.elapsed()),
                "bufferSize": self.installed().waiting(),
                "outputHashCode": if family.is_v2() { json!(hash) } else { json!(hash.to_string()) },
            }},
        });
        let outputs = self.figures();
        if !outputs.is_empty() {
            let shown = outputs.iter().map(|(figures, holds)| (figures.name.clone(), figures.to_json(family, *holds)));
            described["stats"]["local"]["outputs"] = shown.collect::<JsonMap<_, _>>().into();
        }
        // Said only by those who began otherwise than clients of the reference service know.
        if settings.start != StartFrom::Now {
            described["startFrom"] = settings.start.to_json(family);
        }
        // There only until the graph at rest has been looked through.
        if let Some((looked_at, nodes)) = self.installed().backfill() {
            described["stats"]["local"]["backfill"] = json!({"nodesLookedAt": looked_at, "nodes": nodes});
        }
        if let Some(Paused { since, held_back }) = self.installed().paused() {
            let since = clock::instant(clock::from_millis(since.millis()));
            described["stats"]["local"]["paused"] = json!({"since": since, "heldBack": held_back});
        }
        if let Some((looked_at, nodes)) = lock(&self.successor).as_ref().map(|next| next.backfill().unwrap_or_default()) {
            described["stats"]["local"]["replacement"] = json!({"nodesLookedAt": looked_at, "nodes": nodes});
        }
        // There only while it costs more than there is time for.
        if let Some(Behind { answered_upto, by, changes }) = self.behind().filter(|behind| behind.by >= BEHIND_MIN) {
            described["stats"]["local"]["behind"] = json!({"answeredUpTo": clock::instant(answered_upto),
                "by": family.duration(by), "changesWaiting": changes});
        }
        // There only where it costs more than is good.
        if let Some(LeftOut { rows, last, of, .. }) = self.installed().left_out() {
            described["stats"]["local"]["leftOut"] = json!({"rows": rows, "last": last});
            if let Some(text) = of.and_then(|of| self.text_of(&of)) {
                described["stats"]["local"]["leftOut"]["expression"] = text.into();
            }
        }
        if let Some(reason) = self.installed().failure() {
            described["stats"]["local"]["failed"] = reason.into();
        }
        // There as soon as a result has been measured, for the stages that have been.
        let installed = self.installed();
        let stages = Stage::ALL.map(|stage| (stage, installed.latency().of(stage)));
        let measured = stages.iter().filter(|(_, histogram)| histogram.count() > 0);
        let latency: JsonMap<String, Json> =
            measured.map(|(stage, histogram)| (stage.name().to_owned(), shown(histogram))).collect();
        if !latency.is_empty() {
            described["stats"]["local"]["latency"] = latency.into();
        }
        described
    }

    /// An expression of its plan, by the names of its text. The plan is made once more, which takes a moment: few queries leave
    /// something out, and none of those that do not keeps what only this would be for.
    fn text_of(&self, expr: &Expr) -> Option<String> {
        let standing = self.compiled().ok()?;
        Some(Words::of(&standing).expr(expr).chars().take(EXPRESSION_MAX).collect())
    }
}

fn shown(histogram: &Histogram) -> Json {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let count = histogram.count();
    json!({
        "count": count,
        "meanMillis": histogram.seconds() * 1e3 / count.max(1) as f64,
        "p50Millis": millis(histogram.percentile(0.5)),
        "p90Millis": millis(histogram.percentile(0.9)),
        "p99Millis": millis(histogram.percentile(0.99)),
        "p999Millis": millis(histogram.percentile(0.999)),
        "maxMillis": millis(histogram.most()),
    })
}
